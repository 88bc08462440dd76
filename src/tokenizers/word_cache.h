// The ids of words that came before: text repeats itself. One thread's; of fixed size, a word takes
// the place of another.
//
//   if (!cache.get(word, ids)) { model.encode(word, ids); cache.put(word, ids from there on); }
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace snug {

class WordCache {
 public:
  WordCache() : entries_(kEntries) {}

  // Appends the ids of a word that is known. The place found is remembered for put().
  bool get(std::string_view word, std::vector<int32_t>& ids) {
    place_ = nullptr;
    if (word.size() > kLongest) return false;
    Entry& entry = entries_[hash_of(word) >> (64 - kBits)];
    place_ = &entry;
    if (entry.count == 0 || entry.size != word.size() ||
        std::memcmp(entry.word.data(), word.data(), word.size()) != 0)
      return false;
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return true;
  }
  // After get() of the same word.
  void put(std::string_view word, std::span<const int32_t> ids) {
    if (place_ == nullptr || ids.empty() || ids.size() > place_->ids.size()) return;
    place_->size = static_cast<uint8_t>(word.size());
    place_->count = static_cast<uint8_t>(ids.size());
    std::memcpy(place_->word.data(), word.data(), word.size());
    std::memcpy(place_->ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr int kBits = 15;
  static constexpr size_t kEntries = size_t{1} << kBits;
  static constexpr size_t kLongest = 30;
  struct Entry {
    uint8_t size = 0, count = 0;  // 0: free
    std::array<char, kLongest> word;
    std::array<int32_t, 8> ids;
  };

  static uint64_t hash_of(std::string_view word) {
    uint64_t hash = word.size() * 0x9e3779b97f4a7c15U;
    const auto mix = [&](const char* from, size_t n) {
      uint64_t part = 0;
      std::memcpy(&part, from, n);
      hash = (hash ^ part) * 0xbf58476d1ce4e5b9U;
      hash ^= hash >> 29;
    };
    size_t at = 0;
    for (; at + 8 <= word.size(); at += 8) mix(word.data() + at, 8);
    if (at < word.size()) mix(word.data() + at, word.size() - at);
    return hash * 0x94d049bb133111ebU;
  }

  std::vector<Entry> entries_;
  Entry* place_ = nullptr;
};

}  // namespace snug
