// Packs blocks of bytes that each live for a while into an arena as low as it can: no two blocks
// that live at the same time share a byte. Knows nothing of programs; placement.h does.
//
//   Packing p = pack(blocks, 256);   p.height is the arena; no arena can be below p.max_live
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace snug {

struct Block {
  int64_t bytes = 0;
  int32_t first = 0;  // lives from this instant
  int32_t last = 0;   // to this one, both included
};

struct Packing {
  std::vector<int64_t> offsets;  // one per block, each a multiple of the alignment
  int64_t height = 0;            // the end of the highest block
  int64_t max_live = 0;          // the most bytes that live at one instant
  std::string_view order;        // which order of placing won
};

// Effort is counted in steps of the index (10 to 20 ns each), never in seconds: every machine gets
// the same packing.
constexpr int64_t kPackingEffort = 6'000'000;

// Best of several greedy orders, then moves of blocks that stick out; stops at the lower bound.
Packing pack(std::span<const Block> blocks, int64_t alignment, int64_t effort = kPackingEffort);

// Live bytes at each instant from 0 to the last one that any block touches.
std::vector<int64_t> live_profile(std::span<const Block> blocks);

}  // namespace snug
