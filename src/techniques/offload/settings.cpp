#include "techniques/offload/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

#include "settings/option_rows.h"

namespace snug {
namespace {

constexpr std::array<std::string_view, kOffloadItems> kItems{"optimizer", "master", "grads",
                                                             "params", "activations"};
constexpr std::string_view kAllItems = "all";
constexpr const char* kForm =
    "e.g. optimizer,master or params@0-11+15=disk; none keeps all on the device";

// Do both speak of one layer in the same way: of all of them, or by name?
bool overlap(const std::vector<LayerRange>& a, const std::vector<LayerRange>& b) {
  if (a.empty() || b.empty()) return a.empty() && b.empty();
  return std::ranges::any_of(a, [&](const LayerRange& x) {
    return std::ranges::any_of(
        b, [&](const LayerRange& y) { return x.first <= y.last && y.first <= x.last; });
  });
}

// One "params@0-11+15=host".
class Part {
 public:
  Part(std::string_view part, std::string_view whole, std::string_view option)
      : part_(part), whole_(whole), option_(option) {}

  std::vector<Offload::Rule> rules() const {
    std::string_view rest = part_;
    const std::string_view place = cut_off(rest, '=');
    const std::string_view layers = cut_off(rest, '@');
    std::vector<Offload::Rule> out;
    for (size_t i = 0; i < kItems.size(); ++i) {
      if (rest == kItems[i] || rest == kAllItems)
        out.push_back({static_cast<OffloadItem>(i), read_layers(layers), read_place(place)});
    }
    if (!out.empty()) return out;
    std::vector<std::string> words(kItems.begin(), kItems.end());
    words.emplace_back(kAllItems);
    throw wrong(
        fmt::format("'{}' is not one of {}{}", rest, join(words, ", "), did_you_mean(rest, words)));
  }

 private:
  // What follows the last `at`, which with it is taken from the text; nullptr where there is none.
  static std::string_view cut_off(std::string_view& text, char at) {
    const size_t place = text.rfind(at);
    if (place == std::string_view::npos) return {};
    const std::string_view after = text.substr(place + 1);
    text = text.substr(0, place);
    return after;
  }

  std::vector<LayerRange> read_layers(std::string_view text) const {
    if (text.data() == nullptr) return {};
    return read_layer_ranges(text, [&](std::string_view why) { return wrong(why); });
  }

  Space read_place(std::string_view text) const {
    if (text.data() == nullptr || text == name_of(Space::host)) return Space::host;
    if (text == name_of(Space::disk)) return Space::disk;
    throw wrong(fmt::format("'{}' is not a place: host or disk", text));
  }

  Error wrong(std::string_view why) const {
    return usage_error("--{} '{}': {}", option_, whole_, why).hint(kForm);
  }

  std::string_view part_, whole_, option_;
};

void add(Offload& offload, const Offload::Rule& rule, std::string_view whole) {
  const auto same = [&](const Offload::Rule& known) {
    return known.item == rule.item && known.place == rule.place;
  };
  for (const Offload::Rule& known : offload.rules) {
    if (known.item == rule.item && !same(known) && overlap(known.layers, rule.layers))
      throw usage_error("--offload '{}' says two things of {}", whole, name_of(rule.item));
  }
  const auto known = std::ranges::find_if(offload.rules, same);
  if (known == offload.rules.end()) {
    offload.rules.push_back(rule);
  } else if (known->layers.empty() || rule.layers.empty()) {
    known->layers.clear();
  } else {
    known->layers.insert(known->layers.end(), rule.layers.begin(), rule.layers.end());
    known->layers = tidy(std::move(known->layers));
  }
}

std::string behind_item(const Offload::Rule& rule) {
  return (rule.layers.empty() ? "" : "@" + text(rule.layers)) +
         (rule.place == Space::host ? "" : fmt::format("={}", name_of(rule.place)));
}

}  // namespace

std::string_view name_of(OffloadItem item) { return kItems[static_cast<size_t>(item)]; }

std::optional<OffloadItem> offload_item(Category category) {
  switch (category) {
    case Category::optimizer:
      return OffloadItem::optimizer;
    case Category::master:
      return OffloadItem::master;
    case Category::grads:
      return OffloadItem::grads;
    case Category::params:
      return OffloadItem::params;
    case Category::activations:
      return OffloadItem::activations;
    default:
      return std::nullopt;
  }
}

Space Offload::space_of(OffloadItem item, int32_t layer) const {
  Space space = Space::device;
  for (const Rule& rule : rules) {
    if (rule.item != item) continue;
    if (holds(rule.layers, layer)) return rule.place;
    if (rule.layers.empty()) space = rule.place;
  }
  return space;
}

bool Offload::moves(OffloadItem item) const {
  return std::ranges::any_of(rules, [&](const Rule& rule) { return rule.item == item; });
}

bool Offload::uses(Space place) const {
  return std::ranges::any_of(rules, [&](const Rule& rule) { return rule.place == place; });
}

Offload Offload::parse(std::string_view text, std::string_view option) {
  Offload offload;
  if (text == "none") return offload;
  for (const std::string& part : split(text, ',')) {
    for (const Offload::Rule& rule : Part(part, text, option).rules()) add(offload, rule, text);
  }
  std::ranges::stable_sort(offload.rules, {}, [](const Offload::Rule& rule) {
    return std::pair(rule.item, !rule.layers.empty());  // of all layers first
  });
  return offload;
}

std::string text(const Offload& offload) {
  if (offload.none()) return "none";
  std::vector<std::string> parts;
  for (const Offload::Rule& rule : offload.rules)
    parts.push_back(std::string(name_of(rule.item)) + behind_item(rule));
  const bool alike = std::ranges::all_of(offload.rules, [&](const Offload::Rule& rule) {
    return behind_item(rule) == behind_item(offload.rules.front());
  });
  if (alike && offload.rules.size() == kItems.size())
    return std::string(kAllItems) + behind_item(offload.rules.front());
  return join(parts, ",");
}

Offload on_host(std::initializer_list<OffloadItem> items) {
  Offload offload;
  for (const OffloadItem item : items) offload.rules.push_back({.item = item});
  return offload;
}

void require_layers(const Offload& offload, int64_t layers) {
  for (const Offload::Rule& rule : offload.rules) {
    if (rule.layers.empty() || rule.layers.back().last < layers) continue;
    throw usage_error("--offload {}: layer {} of {}, but the model has {}", text(offload),
                      rule.layers.back().last, name_of(rule.item), layers)
        .hint("layers are counted from 0");
  }
}

std::vector<Option> offload_options() {
  return {
      option_row(
          "offload", &Options::offload,
          "auto | none | ITEM[@LAYERS][=PLACE],...: what is stored outside the device and "
          "prefetched "
          "for its uses; ITEM optimizer, master, grads, params, activations or all, LAYERS like "
          "0-11+15, PLACE host or disk, host if not given (auto: none, or on a GPU what --budget "
          "chooses)",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::sample,
           .on_resume = OnResume::exact,
           .settled = true}),
      option_row("offload-ahead", &Options::offload_ahead,
                 "prefetch distance, in layers (0: 1, or what is fastest in the budget)",
                 {.verbs = Verbs::runs | Verbs::eval | Verbs::sample,
                  .on_resume = OnResume::exact,
                  .settled = true}),
      option_row(
          "offload-dir", &Options::offload_dir,
          "directory on a local disk, for what --offload puts there: one file, which is gone when "
          "the run ends",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::sample,
           .on_resume = OnResume::limit,
           .of_host = true})};
}

}  // namespace snug
