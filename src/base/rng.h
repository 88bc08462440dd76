// Counter-based random numbers: a pure function of a key and a counter, so that any element can be
// drawn alone, in any order, on any device, and again during recompute. Philox 4x32-10 (Salmon et
// al., SC'11).
//
//   Key key = random_key(seed, step, hash_name("layers.3.attn.dropout"));
//   float u = unit_float(philox(key, element / 4, sample)[element % 4]);    // in [0, 1)
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace snug {

using Key = uint64_t;

// FNV-1a: turns an op's stable name into a number. Part of the saved-run contract: never change it.
constexpr uint64_t hash_name(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

// SplitMix64's finaliser: every bit of x reaches every bit of the result.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr Key random_key(uint64_t seed, uint64_t step, uint64_t name) {
  return mix(mix(mix(seed) ^ step) ^ name);
}

constexpr std::array<uint32_t, 4> philox(Key key, uint64_t counter, uint64_t stream = 0) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  auto c0 = static_cast<uint32_t>(counter);
  auto c1 = static_cast<uint32_t>(counter >> 32);
  auto c2 = static_cast<uint32_t>(stream);
  auto c3 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

constexpr float unit_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

// Two independent standard normals from one counter (Box-Muller).
std::array<double, 2> normal_pair(Key key, uint64_t counter, uint64_t stream = 0);

// A bijection of [0, n): the shuffled position of index i. No table, so a terabyte of data shuffles
// in no memory.
uint64_t permute(Key key, uint64_t i, uint64_t n);

}  // namespace snug
