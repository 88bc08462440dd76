// Counter-based random numbers: a pure function of a key and a counter, so that any element can be
// drawn alone, in any order, on any device, and again during recompute. Philox 4x32 (Salmon et al.,
// SC'11) of ten rounds, of seven for masks.
//
//   Key key = random_key(seed, step, hash_name("layers.3.attn.dropout"));
//   float u = unit_float(philox(key, element / 4, sample)[element % 4]);    // in [0, 1)
//   bool kept = sixteen_bits(key, element, sample) >= threshold;            // a mask's
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

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

// a * b in two words. On a GPU one instruction makes both; its compiler adds a second to the plain
// form.
struct Product {
  uint32_t low, high;
};
constexpr Product product(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  if (!std::is_constant_evaluated()) {
    Product out;
    asm("{.reg .u64 p; mul.wide.u32 p, %2, %3; mov.b64 {%0, %1}, p;}"
        : "=r"(out.low), "=r"(out.high)
        : "r"(a), "r"(b));
    return out;
  }
#endif
  const uint64_t whole = uint64_t{a} * b;
  return {static_cast<uint32_t>(whole), static_cast<uint32_t>(whole >> 32)};
}

template <int kRounds = 10>
constexpr std::array<uint32_t, 4> philox(Key key, uint64_t counter, uint64_t stream = 0) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  auto c0 = static_cast<uint32_t>(counter);
  auto c1 = static_cast<uint32_t>(counter >> 32);
  auto c2 = static_cast<uint32_t>(stream);
  auto c3 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const Product p0 = product(0xD2511F53, c0);
    const Product p1 = product(0xCD9E8D57, c2);
    c0 = p1.high ^ c1 ^ k0;
    c1 = p1.low;
    c2 = p0.high ^ c3 ^ k1;
    c3 = p0.low;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

// The known answers of Random123.
static_assert(philox(0, 0) == std::array{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});
static_assert(philox<7>(0, 0) == std::array{0x5f6fb709U, 0x0d893f64U, 0x4f121f81U, 0x4f730a48U});

// 16 bits for each of eight neighbours, two to a word, the first in the low half. Seven rounds are
// the fewest that pass every test of Salmon et al.; masks are drawn billions of times a step.
constexpr std::array<uint32_t, 4> philox_eight(Key key, uint64_t eight, uint64_t stream) {
  return philox<7>(key, eight, stream);
}
constexpr uint32_t sixteen_bits(Key key, uint64_t element, uint64_t stream) {
  return philox_eight(key, element / 8, stream)[element % 8 / 2] >> (16 * (element % 2)) & 0xFFFF;
}

constexpr float unit_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24F; }

// Two independent standard normals from one counter (Box-Muller).
std::array<double, 2> normal_pair(Key key, uint64_t counter, uint64_t stream = 0);

// A bijection of [0, n): the shuffled position of index i. No table, so a terabyte of data shuffles
// in no memory.
uint64_t permute(Key key, uint64_t i, uint64_t n);

}  // namespace snug
