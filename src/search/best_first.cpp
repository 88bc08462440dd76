#include "search/best_first.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "base/parallel.h"

namespace snug {
namespace {

// An entry of a queue that is no candidate yet: the variant is to be expanded.
constexpr size_t kExpand = std::numeric_limits<size_t>::max();

template <typename Key>
struct Entry {
  Key key = {};
  size_t variant = 0, candidate = kExpand;
  friend bool operator>(const Entry& a, const Entry& b) {
    return std::tie(a.key, a.variant, a.candidate) > std::tie(b.key, b.variant, b.candidate);
  }
};
template <typename Key>
using Queue = std::priority_queue<Entry<Key>, std::vector<Entry<Key>>, std::greater<>>;

template <typename Key>
Entry<Key> pop(Queue<Key>& queue) {
  const Entry<Key> top = queue.top();
  queue.pop();
  return top;
}

// What computes more than a plan of the same variant that fits is no faster but for what lanes wait
// for each other; where other lanes take longer, hundreds are expected to be as fast. Of those every so
// many is tried, and what treats all layers alike.
class Fits {
 public:
  bool contains(CandidateId id) const { return tried_.contains({id.variant, id.candidate}); }
  void add(CandidateId id, double compute) {
    tried_.insert({id.variant, id.candidate});
    double& least = computes_.try_emplace(id.variant, compute).first->second;
    least = std::min(least, compute);
  }
  bool rule_out(CandidateId id, const std::vector<PlanCandidate>& of_variant) const {
    constexpr size_t kTried = 8;
    const auto least = computes_.find(id.variant);
    const PlanCandidate& c = of_variant[id.candidate];
    return least != computes_.end() && c.compute >= least->second && !c.uniform &&
           id.candidate % (of_variant.size() / kTried + 1) != 0;
  }

 private:
  std::set<std::pair<size_t, size_t>> tried_;
  std::map<size_t, double> computes_;  // by variant: the least of these
};

}  // namespace

SizeKey size_key(const SpaceBytes& bytes, const Limits& limits) {
  SpaceBytes offloaded = bytes;
  offloaded[Space::device] = 0;
  return {!offloaded.fits_in(limits), bytes[Space::device]};
}

std::optional<CandidateId> find_fastest(Candidates& all, std::span<const size_t> variants,
                                        const Limits& limits) {
  Queue<std::pair<double, Effect>> queue;
  const auto effect_of = [&](size_t v) { return all.variants()[v].effect; };
  const auto push = [&](size_t v, size_t c) {
    const PlanCandidate& candidate = all[{v, c}];
    if (candidate.least.fits_in(limits)) queue.push({{candidate.seconds, effect_of(v)}, v, c});
  };
  Fits fits;
  for (const size_t v : variants) {
    if (all.moves(v) || !all.estimate_of(v)->least_arena().fits_in(limits)) continue;
    // What moves is more where less is recomputed: none of its policies bounds the others.
    if (all.variants()[v].keeps_uniformly()) all.expand(v);
    for (size_t c = 0; c < all.of(v).size(); ++c) push(v, c);
    if (!all.is_expanded(v)) queue.push({{all.least_seconds(v), effect_of(v)}, v, kExpand});
  }
  while (!queue.empty()) {
    const auto [key, v, c] = pop(queue);
    const CandidateId id{v, c};
    if (c == kExpand) {
      const size_t known = all.of(v).size();
      all.expand(v);
      for (size_t i = known; i < all.of(v).size(); ++i) push(v, i);
    } else if (fits.contains(id)) {
      return id;
    } else if (!fits.rule_out(id, all.of(v)) && all.size_of(id).fits_in(limits)) {
      // Its true time is known now: another may be faster.
      if (all[id].seconds <= key.first) return id;
      fits.add(id, all[id].compute);
      push(v, c);
    }
  }
  return std::nullopt;
}

CandidateId find_smallest(Candidates& all, std::span<const size_t> variants, const Limits& limits) {
  Queue<SizeKey> queue;
  for_each_in_parallel(variants.size(), [&](size_t i) { all.estimate(variants[i]); });
  for (const size_t v : variants)
    queue.push({size_key(all.estimate_of(v)->least_arena(), limits), v});
  CandidateId best;
  SizeKey smallest{true, kUnlimited};
  while (!queue.empty() && queue.top().key < smallest) {
    const auto [key, v, c] = pop(queue);
    if (c == kExpand) {
      all.expand(v);
      for (size_t i = 0; i < all.of(v).size(); ++i)
        queue.push({size_key(all.of(v)[i].least, limits), v, i});
    } else if (const SizeKey size = size_key(all.size_of({v, c}), limits); size < smallest) {
      smallest = size;
      best = {v, c};
    }
  }
  return best;
}

}  // namespace snug
