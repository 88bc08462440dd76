#include "search/pareto_frontier.h"

#include <algorithm>
#include <limits>

namespace snug {
namespace {

// A point of one layer's table; the assignment is read off by following `next` upwards.
struct State {
  int64_t transient = 0;
  double seconds = 0;
  int option = -1;
  int next = -1;  // in the table of the layer after the option's
};

State put_before(const LayerPolicy& option, const State& rest) {
  return {.transient = std::max(option.costs.working, option.costs.kept + rest.transient),
          .seconds = option.costs.seconds + rest.seconds};
}

// By rising transient bytes: the fastest of every slice of it, and the state that needs least.
std::vector<State> fastest_per_slice(const std::vector<State>& states, size_t slices) {
  const auto [low, high] = std::ranges::minmax_element(states, {}, &State::transient);
  const double width = static_cast<double>(high->transient - low->transient + 1);
  std::vector<const State*> best(slices, nullptr);
  for (const State& s : states) {
    const double share = static_cast<double>(s.transient - low->transient) / width;
    const State*& slot = best[static_cast<size_t>(share * static_cast<double>(slices))];
    if (slot == nullptr || s.seconds < slot->seconds) slot = &s;
  }
  std::vector<State> out{*low};
  for (const State* s : best) {
    if (s != nullptr) out.push_back(*s);
  }
  return out;
}

// Of states by rising transient bytes: those that are faster than all before them.
void keep_pareto(std::vector<State>& states) {
  double fastest = std::numeric_limits<double>::infinity();
  std::erase_if(states, [&](const State& s) {
    if (s.seconds >= fastest) return true;
    fastest = s.seconds;
    return false;
  });
}

// Of two states, the seconds per byte on the line between them.
double slope(const State& a, const State& b) {
  return (b.seconds - a.seconds) / static_cast<double>(b.transient - a.transient);
}

// How far each state is above the lower convex hull of all, in seconds.
std::vector<double> above_hull(const std::vector<State>& states) {
  std::vector<size_t> hull;
  for (size_t i = 0; i < states.size(); ++i) {
    while (hull.size() >= 2 && slope(states[hull[hull.size() - 2]], states[hull.back()]) >
                                   slope(states[hull.back()], states[i]))
      hull.pop_back();
    hull.push_back(i);
  }
  std::vector<double> above(states.size(), 0);
  for (size_t h = 0; h + 1 < hull.size(); ++h) {
    const State& from = states[hull[h]];
    const double line = slope(from, states[hull[h + 1]]);
    for (size_t i = hull[h] + 1; i < hull[h + 1]; ++i) {
      const auto transient = static_cast<double>(states[i].transient - from.transient);
      above[i] = states[i].seconds - from.seconds - line * transient;
    }
  }
  return above;
}

// Of each slice of bytes the state nearest to the hull, the first and the last. Sums of states
// on the hulls of layers are on the hull of the sums, so what is lost does not add up over layers.
std::vector<State> nearest_to_hull(const std::vector<State>& states, size_t slices) {
  const std::vector<double> above = above_hull(states);
  const int64_t least = states.front().transient;
  const double width = static_cast<double>(states.back().transient - least + 1);
  std::vector<State> out;
  size_t slice = 0;
  double best = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    const double share = static_cast<double>(states[i].transient - least) / width;
    const auto at = 1 + static_cast<size_t>(share * static_cast<double>(slices));
    const bool last = i + 1 == states.size();
    if (at != slice || out.size() == 1 || last) {
      out.push_back(states[i]);
    } else if (above[i] < best) {
      out.back() = states[i];
    } else {
      continue;
    }
    slice = at;
    best = above[i];
  }
  return out;
}

// At most about `limit` states by rising transient bytes and falling seconds.
std::vector<State> reduce(std::vector<State> states, size_t limit) {
  constexpr size_t kFine = 8;  // slices per state that is kept: cheaper than sorting
  if (states.size() > kFine * limit) {
    states = fastest_per_slice(states, kFine * limit);
  } else {
    std::stable_sort(states.begin(), states.end(), [](const State& a, const State& b) {
      return a.transient != b.transient ? a.transient < b.transient : a.seconds < b.seconds;
    });
  }
  keep_pareto(states);
  return states.size() <= limit ? states : nearest_to_hull(states, limit);
}

using Tables = std::vector<std::vector<State>>;  // by layer; the last comes after all layers

Tables solve(const LayerPolicies& layers, size_t limit) {
  const size_t L = layers.at.size();
  Tables tables(L + 1);
  tables[L].push_back({.transient = layers.after.working});
  for (size_t l = L; l-- > 0;) {
    std::vector<State> states;
    for (const int o : layers.at[l]) {
      const LayerPolicy& option = layers.options[static_cast<size_t>(o)];
      const auto& rest = tables[l + static_cast<size_t>(option.layers)];
      for (size_t n = 0; n < rest.size(); ++n) {
        states.push_back(put_before(option, rest[n]));
        states.back().option = o;
        states.back().next = static_cast<int>(n);
      }
    }
    tables[l] = reduce(std::move(states), limit);
  }
  return tables;
}

std::vector<int> read_off(const LayerPolicies& layers, const Tables& tables, State state) {
  std::vector<int> options;
  for (size_t l = 0; state.option >= 0;) {
    options.push_back(state.option);
    l += static_cast<size_t>(layers.options[static_cast<size_t>(state.option)].layers);
    state = tables[l][static_cast<size_t>(state.next)];
  }
  return options;
}

// With what runs before the layers, and what other programs need.
int64_t whole_transient(const LayerPolicies& layers, int64_t transient) {
  return std::max({layers.before.working, layers.before.kept + transient, layers.other_programs});
}

}  // namespace

std::vector<ParetoPoint> pareto_frontier(const LayerPolicies& layers, size_t states) {
  const Tables tables = solve(layers, states);
  std::vector<ParetoPoint> frontier;
  for (const State& state : tables.front()) {
    const int64_t transient = whole_transient(layers, state.transient);
    if (!frontier.empty() && frontier.back().transient == transient) frontier.pop_back();
    frontier.push_back({transient, state.seconds, read_off(layers, tables, state)});
  }
  return frontier;
}

ParetoPoint evaluate(const LayerPolicies& layers, std::vector<int> options) {
  State state{.transient = layers.after.working};
  for (auto o = options.rbegin(); o != options.rend(); ++o) {
    state = put_before(layers.options[static_cast<size_t>(*o)], state);
  }
  return {whole_transient(layers, state.transient), state.seconds, std::move(options)};
}

}  // namespace snug
