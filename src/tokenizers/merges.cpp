#include "tokenizers/merges.h"

#include <algorithm>
#include <array>
#include <bit>

namespace snug {

Merges::Merges(size_t count) : table_(std::bit_ceil(2 * count + 2)) {
  shift_ = 64 - std::countr_zero(table_.size());
}

const Merges::Entry& Merges::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  size_t at = place_of(pair);
  while (table_[at].pair != pair && table_[at].pair != kFree) at = (at + 1) & (table_.size() - 1);
  return table_[at];
}

uint32_t Merges::rank_of(int32_t left, int32_t right) const {
  const Entry& entry = find(left, right);
  return entry.pair == kFree ? kNoRank : entry.rank;
}

// A pair that comes again has the later rank.
void Merges::add(int32_t left, int32_t right, int32_t joined) {
  const_cast<Entry&>(find(left, right)) = {pair_of(left, right), next_rank_++, joined};
}

void Merges::apply(std::vector<int32_t>& ids, size_t first) const {
  constexpr size_t kShort = 48;
  if (ids.size() - first < 2) return;
  if (ids.size() - first <= kShort)
    apply_to_short(ids, first);
  else
    apply_to_long(ids, first);
}

// For few symbols looking at all ranks is faster than a heap.
void Merges::apply_to_short(std::vector<int32_t>& ids, size_t first) const {
  std::array<uint32_t, 64> ranks;  // of the pair that begins there
  int32_t* symbols = ids.data() + first;
  size_t n = ids.size() - first;
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank_of(symbols[i], symbols[i + 1]);
  while (n > 1) {
    const auto* least = std::min_element(ranks.begin(), ranks.begin() + n - 1);
    if (*least == kNoRank) break;
    const auto i = static_cast<size_t>(least - ranks.begin());
    symbols[i] = find(symbols[i], symbols[i + 1]).joined;
    std::copy(symbols + i + 2, symbols + n, symbols + i + 1);
    std::copy(ranks.begin() + i + 2, ranks.begin() + n, ranks.begin() + i + 1);
    --n;
    if (i + 1 < n) ranks[i] = rank_of(symbols[i], symbols[i + 1]);
    if (i > 0) ranks[i - 1] = rank_of(symbols[i - 1], symbols[i]);
  }
  ids.resize(first + n);
}

// Symbols in a linked list, the pairs that may be joined in a heap. A pair that has changed since it
// was put there joins to something else, and is passed over.
void Merges::apply_to_long(std::vector<int32_t>& ids, size_t first) const {
  struct Symbol {
    int32_t id, before, after;  // after: -1 at the end; id: -1 when it was joined to the left
  };
  struct Candidate {
    uint32_t rank;
    int32_t at, joined;
    bool operator<(const Candidate& other) const {  // the heap's top is the largest
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const auto n = static_cast<int32_t>(ids.size() - first);
  std::vector<Symbol> symbols;
  symbols.reserve(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i)
    symbols.push_back({ids[first + static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1});
  const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  std::vector<Candidate> heap;
  heap.reserve(static_cast<size_t>(n));
  const auto consider = [&](int32_t at) {
    if (at < 0 || symbol(at).after < 0) return;
    const Entry& entry = find(symbol(at).id, symbol(symbol(at).after).id);
    if (entry.pair == kFree) return;
    heap.push_back({entry.rank, at, entry.joined});
    std::push_heap(heap.begin(), heap.end());
  };
  for (int32_t i = 0; i + 1 < n; ++i) consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbol(best.at);
    if (left.id < 0 || left.after < 0) continue;
    Symbol& right = symbol(left.after);
    const Entry& entry = find(left.id, right.id);
    if (entry.pair == kFree || entry.joined != best.joined) continue;
    left.id = entry.joined;
    left.after = right.after;
    right.id = -1;
    if (left.after >= 0) symbol(left.after).before = best.at;
    consider(left.before);
    consider(best.at);
  }
  size_t out = first;
  for (int32_t i = 0; i >= 0; i = symbol(i).after) ids[out++] = symbol(i).id;
  ids.resize(out);
}

}  // namespace snug
