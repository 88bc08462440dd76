#include "techniques/recompute/settings.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "settings/amounts.h"
#include "settings/layer_range.h"

#include "settings/option_rows.h"

namespace snug {
namespace {

constexpr const char* kForms =
    "none, full, every:N, sqrt, ratio:R, attention, list:0,3,5-7, layers:0-8=attn.norm, auto or "
    "auto:BYTES";

std::vector<Segment> parse_list(std::string_view text, std::string_view whole) {
  std::vector<Segment> out;
  for (const std::string& part : split(text, ',')) {
    const auto range = read_layer_range(part);
    if (!range)
      throw usage_error("--recompute '{}': '{}' is not a layer or a range of layers", whole, part);
    out.push_back({range->first, range->last});
  }
  return out;
}

// Consecutive segments of n layers; the last may be shorter.
std::vector<Segment> cut(int32_t layers, int64_t n) {
  std::vector<Segment> out;
  for (int64_t first = 0; first < layers; first += n) {
    out.push_back({static_cast<int32_t>(first),
                   static_cast<int32_t>(std::min<int64_t>(first + n, layers) - 1)});
  }
  return out;
}

// "0-3" of the layers 0 to 3, "5" of a single one.
std::string range_text(int32_t first, int32_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

// Neighbours that are treated alike make one phrase.
std::string text_of_chosen(std::span<const Segment> segments) {
  const auto length = [](const Segment& s) { return s.last - s.first + 1; };
  std::vector<std::string> phrases;
  for (size_t i = 0, next = 0; i < segments.size(); i = next) {
    for (next = i + 1; next < segments.size(); ++next) {
      const Segment &a = segments[next - 1], &b = segments[next];
      if (a.drop != b.drop || length(a) != length(b) || a.last + 1 != b.first) break;
    }
    const Segment& s = segments[i];
    const std::string how = !s.drop.empty()  ? "drop " + join(s.drop, ", ")
                            : length(s) == 1 ? "full"
                                             : fmt::format("every:{}", length(s));
    const int32_t last = segments[next - 1].last;
    const char* word = i > 0 ? "" : s.first == last ? "layer " : "layers ";
    phrases.push_back(word + range_text(s.first, last) + " " + how);
  }
  return phrases.empty() ? "none" : join(phrases, "; ");
}

}  // namespace

RecomputePolicy RecomputePolicy::parse(std::string_view text, std::string_view option) {
  using Kind = RecomputePolicy::Kind;
  const size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  const bool has_rest = colon != std::string_view::npos;
  const std::string_view rest = has_rest ? text.substr(colon + 1) : "";
  auto wrong = [&] { return usage_error("--recompute '{}' is not {}", text, kForms); };

  RecomputePolicy p;
  if (!has_rest) {
    if (word == "none") return p;
    if (word == "full") return {.kind = Kind::full};
    if (word == "sqrt") return {.kind = Kind::sqrt};
    if (word == "attention") return {.kind = Kind::attention};
    const std::vector<std::string> words{"auto",    "none",      "full",     "every:N",   "sqrt",
                                         "ratio:R", "attention", "list:...", "auto:BYTES"};
    throw usage_error("--recompute '{}' is not {}{}", text, kForms, did_you_mean(text, words));
  }
  if (word == "every") {
    p.kind = Kind::every;
    if (!read_number(rest, p.every)) throw wrong();
    if (p.every < 1)
      throw usage_error("--recompute every:{}: a segment has at least one layer", p.every);
    return p;
  }
  if (word == "ratio") {
    p.kind = Kind::ratio;
    if (!read_number(rest, p.ratio)) throw wrong();
    if (!(p.ratio >= 0 && p.ratio <= 1))
      throw usage_error("--recompute ratio:{}: a ratio is between 0 and 1", rest);
    return p;
  }
  if (word == "list") return {.kind = Kind::list, .list = parse_list(rest, text)};
  if (word == "layers") return {.kind = Kind::chosen, .chosen = parse_layers(rest, text)};
  if (word == "auto")
    return {.kind = Kind::automatic,
            .bytes = parse_bytes_of(rest, fmt::format("{} '{}':", option, text))};
  const std::vector<std::string> words{"every", "ratio", "list", "layers", "auto"};
  throw usage_error("--recompute '{}' is not {}{}", text, kForms, did_you_mean(word, words));
}

std::string text(const RecomputePolicy& policy) {
  using Kind = RecomputePolicy::Kind;
  switch (policy.kind) {
    case Kind::none:
      return "none";
    case Kind::full:
      return "full";
    case Kind::every:
      return fmt::format("every:{}", policy.every);
    case Kind::sqrt:
      return "sqrt";
    case Kind::ratio:
      return fmt::format("ratio:{}", policy.ratio);
    case Kind::attention:
      return "attention";
    case Kind::list: {
      std::vector<std::string> ranges;
      for (const Segment& s : policy.list) ranges.push_back(range_text(s.first, s.last));
      return "list:" + join(ranges, ",");
    }
    case Kind::automatic:
      return "auto:" + exact_bytes_text(policy.bytes);
    case Kind::chosen:
      return policy.chosen.empty() ? "none" : "layers:" + layers_text(policy.chosen);
  }
  return "?";
}

std::string in_words(const RecomputePolicy& policy) {
  return policy.kind == RecomputePolicy::Kind::chosen ? text_of_chosen(policy.chosen)
                                                      : text(policy);
}

std::vector<Segment> segments_of(const RecomputePolicy& policy, int32_t layers) {
  using Kind = RecomputePolicy::Kind;
  switch (policy.kind) {
    case Kind::none:
    case Kind::attention:
      return {};
    case Kind::full:
      return cut(layers, 1);
    case Kind::every:
      return cut(layers, policy.every);
    case Kind::sqrt:
      return cut(layers, static_cast<int64_t>(std::ceil(std::sqrt(layers))));
    case Kind::ratio:
      return cut(static_cast<int32_t>(std::ceil(policy.ratio * layers)), 1);
    case Kind::automatic:
      throw internal_error("--recompute {} has not been chosen yet", text(policy));
    case Kind::chosen:
      if (!policy.chosen.empty() && policy.chosen.back().last >= layers) {
        throw usage_error("--recompute layers names layer {}, but the model has layers 0 to {}",
                          policy.chosen.back().last, layers - 1);
      }
      return policy.chosen;
    case Kind::list:
      break;
  }
  std::vector<Segment> out;
  for (const Segment& range : policy.list) {
    if (range.last >= layers) {
      throw usage_error("--recompute list names layer {}, but the model has layers 0 to {}",
                        range.last, layers - 1);
    }
    for (int32_t layer = range.first; layer <= range.last; ++layer) out.push_back({layer, layer});
  }
  return out;
}

std::vector<Option> recompute_options() {
  return {option_row(
      "recompute", &Options::recompute,
      "auto | none | full | every:N | sqrt | ratio:R | attention | list:0,3,5-7 | "
      "layers:0-8=attn.norm+mlp.act,9=full | auto:BYTES: what backward recomputes (auto: as "
      "little as --budget allows)",
      {.verbs = Verbs::runs | Verbs::doctor, .on_resume = OnResume::exact, .settled = true})};
}

}  // namespace snug
