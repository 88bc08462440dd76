#include "search/home_steps.h"

#include <algorithm>

#include "base/error.h"

namespace snug {
namespace {

class Steps {
 public:
  explicit Steps(const Variant& variant)
      : variant_(variant), now_(variant.settings.recipe.offload) {}

  void add(const std::vector<Offload>& smaller_and_smaller) {
    Step step;
    for (const Offload& offload : smaller_and_smaller) {
      Variant other = with_homes(variant_, offload);
      if (offload != now_ && !offload.none() && host_updates_something(other))
        step.push_back(std::move(other));
    }
    if (!step.empty()) all_.push_back(std::move(step));
  }

  // As many layers as these bytes have room for; fewer where staging turns out to need them.
  void add_nearer(const Room& room, OffloadItem item, Space space, int64_t bytes) {
    constexpr int32_t kFewer = 2;
    std::vector<Offload> some;
    for (int32_t fewer = 0; fewer <= kFewer; ++fewer) {
      if (auto offload = room.with_nearer(now_, item, space, bytes, fewer))
        some.push_back(*std::move(offload));
    }
    add(some);
  }

  // With rules of this item in place of those that there are.
  void add_instead(OffloadItem item, const std::vector<Offload::Rule>& rules) {
    Offload other = now_;
    std::erase_if(other.rules, [&](const Offload::Rule& r) { return r.item == item; });
    other.rules.insert(other.rules.end(), rules.begin(), rules.end());
    std::ranges::stable_sort(other.rules, {}, &Offload::Rule::item);
    add({other});
  }

  std::vector<Step> take() { return std::move(all_); }

 private:
  const Variant& variant_;
  const Offload& now_;
  std::vector<Step> all_;
};

// The same in the first layers alone.
Offload::Rule in_layers(Offload::Rule rule, int32_t layers) {
  rule.layers = {{.first = 0, .last = layers - 1}};
  return rule;
}

std::vector<Step> aheads_of(const Variant& variant) {
  Steps steps(variant);
  for (int32_t ahead = least_ahead(variant); ahead <= most_ahead(variant); ++ahead)
    steps.add({brought_ahead(variant, ahead).settings.recipe.offload});
  return steps.take();
}

std::vector<Offload::Rule> rules_of(const Offload& offload, OffloadItem item) {
  std::vector<Offload::Rule> rules;
  std::ranges::copy_if(offload.rules, std::back_inserter(rules),
                       [&](const Offload::Rule& r) { return r.item == item; });
  return rules;
}

}  // namespace

void set(std::vector<Change>& changes, const Change& change) {
  const auto said = std::ranges::find_if(
      changes, [&](const Change& other) { return other.sets(change.settings().front().option); });
  if (said != changes.end())
    *said += change;
  else
    changes.push_back(change);
}

Variant with_homes(Variant variant, const Offload& offload) {
  if (offload.rules != variant.settings.recipe.offload.rules)
    set(variant.changes, {{"offload", text(offload)}});
  if (offload.ahead != variant.settings.recipe.offload.ahead)
    set(variant.changes, {{"offload-ahead", int64_t{offload.ahead}}});
  variant.settings.recipe.offload = offload;
  return variant;
}

int32_t most_ahead(const Variant& variant) {
  constexpr int32_t kMostAhead = 3;
  return variant.ahead_is_open ? kMostAhead : variant.settings.recipe.offload.ahead;
}

int32_t least_ahead(const Variant& variant) {
  return variant.ahead_is_open ? 1 : variant.settings.recipe.offload.ahead;
}

Variant brought_ahead(const Variant& variant, int32_t layers) {
  Offload offload = variant.settings.recipe.offload;
  offload.ahead = layers;
  return with_homes(variant, offload);
}

bool host_updates_something(const Variant& variant) {
  return unless_refused([&] {
           require_host_update(variant.settings.recipe, variant.stack.layers);
           return true;
         })
      .has_value();
}

std::vector<Step> large_steps(const Variant& variant, Changed what, const Offload& began,
                              const Room& room, const SpaceBytes& left) {
  Steps steps(variant);
  if (!what) return aheads_of(variant);
  for (const Space space : {Space::host, Space::device})
    steps.add_nearer(room, *what, space, left[space]);
  const std::vector<Offload::Rule> all = rules_of(began, *what);
  if (!all.empty()) steps.add_instead(*what, all);
  // What belongs to no layer is large, and used at the ends of a step, where lanes wait.
  if (all.size() == 1 && all[0].layers.empty())
    steps.add_instead(*what, {in_layers(all[0], variant.stack.layers)});
  return steps.take();
}

std::vector<Step> small_steps(const Variant& variant, Changed what, const Offload& began) {
  Steps steps(variant);
  if (!what) return aheads_of(variant);
  const std::vector<Offload::Rule> all = rules_of(began, *what),
                                   some = rules_of(variant.settings.recipe.offload, *what);
  if (all.size() != 1 || some.size() > 1) return {};
  const int32_t layers = variant.stack.layers;
  const int32_t away = some.empty()             ? 0
                       : some[0].layers.empty() ? layers
                                                : some[0].layers.back().last + 1;
  const int32_t quarter = std::max(layers / 4, 2);
  for (const int32_t to : {away - quarter, away - 1, away, away + 1, away + quarter}) {
    if (to < 0 || to > layers) continue;
    steps.add_instead(*what,
                      to == 0 ? std::vector<Offload::Rule>{} : std::vector{in_layers(all[0], to)});
  }
  return steps.take();
}

}  // namespace snug
