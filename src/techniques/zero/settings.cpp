#include "techniques/zero/settings.h"

#include "settings/option_rows.h"

namespace snug {
namespace {

constexpr std::string_view kHybrid = "hybrid:";

}  // namespace

Shard Shard::parse(std::string_view text, std::string_view option) {
  if (text.empty()) return {};
  if (text.starts_with(kHybrid)) {
    Shard shard{.kind = Kind::hybrid};
    if (!read_number(text.substr(kHybrid.size()), shard.group) || shard.group < 2)
      throw usage_error("--{} {}: it is hybrid:N, with two ranks or more that share", option, text);
    return shard;
  }
  require_word(text, option, {"none", "grad-op", "full", "hybrid:N"});
  return {.kind = text == "none" ? Kind::none : text == "full" ? Kind::full : Kind::grad_op};
}

std::string text(const Shard& shard) {
  switch (shard.kind) {
    case Shard::Kind::not_given:
      return "";
    case Shard::Kind::none:
      return "none";
    case Shard::Kind::grad_op:
      return "grad-op";
    case Shard::Kind::full:
      return "full";
    case Shard::Kind::hybrid:
      break;
  }
  return fmt::format("{}{}", kHybrid, shard.group);
}

int64_t rank_on_axis(int64_t place, const Sharding& s) {
  return place % s.sharers() * s.copies() + place / s.sharers();
}

int64_t place_on_axis(int64_t rank, const Sharding& s) {
  return rank % s.copies() * s.sharers() + rank / s.copies();
}

std::vector<Option> zero_options() {
  return {
      option_row(
          "zero", &Options::zero,
          "auto | 0 | 1 | 2 | 3: what ranks share instead of having all of it: 1 masters and "
          "optimizer state, 2 gradients too, 3 parameters too (auto: 1, or what --budget needs)",
          {.on_resume = OnResume::exact, .settled = true}),
      option_row("shard", &Options::shard,
                 "none | grad-op | full: --zero 0, 2 or 3 in the words of FSDP; hybrid:N: groups "
                 "of N ranks "
                 "share, each a copy of the state, as --zero says (3 where it does not)",
                 {.on_resume = OnResume::exact, .settled = true}),
      option_row("zero-threshold", &Options::zero_threshold,
                 "elements below which a parameter stays whole on every rank under --zero",
                 {.on_resume = OnResume::exact})};
}

}  // namespace snug
