#include "techniques/adapters/settings.h"

#include <algorithm>

#include "settings/setting_text.h"

#include "settings/option_rows.h"

namespace snug {
namespace {

constexpr const char* kLoraForm = "for example --lora r=16,alpha=32,targets=qkvo,dropout=0.05";

// Do targets of this name stand for several linear layers?
bool is_word_for_many(std::string_view target) { return target == "all" || target == "qkvo"; }

double number_of(std::string_view key, std::string_view value, std::string_view whole) {
  double number = 0;
  if (!read_number(value, number))
    throw usage_error("--lora '{}': {}={} is not a number", whole, key, value).hint(kLoraForm);
  return number;
}

void require_possible(const Adapters& a, std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return usage_error("--lora '{}': {}", text, why).hint(kLoraForm);
  };
  if (a.rank < 1 || a.rank > 4096) throw wrong("r is between 1 and 4096");
  if (!(a.alpha > 0 && a.alpha <= 1e6)) throw wrong("alpha is more than 0");
  if (!(a.dropout >= 0 && a.dropout < 1)) throw wrong("dropout is between 0 and 1");
  if (std::ranges::any_of(a.targets, &std::string::empty)) throw wrong("a target has no name");
  if (a.targets.size() > 1 && std::ranges::any_of(a.targets, is_word_for_many))
    throw wrong("all and qkvo stand alone");
}

}  // namespace

Adapters Adapters::parse(std::string_view text, std::string_view /*option*/) {
  if (text == "none" || text.empty()) return {};
  Adapters a{.rank = 16, .targets = {"all"}};
  for (const std::string& item : split(text, ',')) {
    const size_t equals = item.find('=');
    const std::string_view key = std::string_view(item).substr(0, equals);
    const std::string_view value =
        equals == std::string::npos ? "" : std::string_view(item).substr(equals + 1);
    if (key == "r") {
      if (!read_number(value, a.rank))
        throw usage_error("--lora '{}': r={} is not a whole number", text, value).hint(kLoraForm);
    } else if (key == "alpha") {
      a.alpha = number_of(key, value, text);
    } else if (key == "dropout") {
      a.dropout = number_of(key, value, text);
    } else if (key == "targets") {
      a.targets = split(value, '+');
    } else {
      throw usage_error(
          "--lora '{}': '{}' is not r, alpha, targets or dropout{}", text, key,
          did_you_mean(key, std::vector<std::string>{"r", "alpha", "targets", "dropout"}))
          .hint(kLoraForm);
    }
  }
  if (a.alpha == 0) a.alpha = 2 * static_cast<double>(a.rank);
  require_possible(a, text);
  return a;
}

std::string text(const Adapters& a) {
  if (!a.on()) return "none";
  std::string out = fmt::format("r={},alpha={},targets={}", a.rank, a.alpha, join(a.targets, "+"));
  if (a.dropout > 0) out += fmt::format(",dropout={}", a.dropout);
  return out;
}

std::vector<Option> adapter_options() {
  return {
      option_row(
          "lora", &Options::lora,
          "none | r=16,alpha=32,targets=qkvo|all|NAME+NAME,dropout=0.05: train low-rank adapters "
          "of the model's linear layers, which are frozen with the rest of it (r: 16, alpha: 2 r, "
          "targets: all and dropout: 0 where they are not given)"),
      option_row("adapter", &Options::adapter,
                 "directory of an adapter, as PEFT saves it: training continues it, eval and "
                 "sample use it",
                 {.verbs = Verbs::train | Verbs::eval | Verbs::sample})};
}

}  // namespace snug
