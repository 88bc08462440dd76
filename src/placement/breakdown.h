// The memory breakdown: the owner of every byte of a placed module, its peak, and what each
// layer costs. Counted from the values and ops alone, so it is as exact as the plan and cannot
// drift from it.
//
//   const MemoryBreakdown memory = memory_breakdown(module);
//   memory.device().peak.op == "h.11.mlp.act.grad";   total(memory.device().breakdown)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_def.h"
#include "ir/program.h"
#include "ir/space_bytes.h"
#include "placement/placement.h"

namespace snug {

using CategoryBytes = std::array<int64_t, kCategories>;
constexpr int kPhases = 3;

// The instant at which most bytes live.
struct Peak {
  std::string program;  // empty when no program has an op
  int64_t op_index = -1;
  std::string op;
  int32_t layer = kNoLayer;
  Phase phase = Phase::forward;
};

struct OwnedBytes {
  std::string name;
  Type type;
  Category category = Category::activations;
  int32_t layer = kNoLayer;
  int64_t bytes = 0;
};

struct SpaceBreakdown {
  PlacementStats placement;
  CategoryBytes breakdown{};  // live at the peak instant: with `gaps` exactly the arena
  int64_t gaps = 0;           // alignment, and holes at the peak instant
  CategoryBytes
      category_peaks{};  // the most that each category ever holds, each at its own instant
  std::array<int64_t, kPhases> phase_peaks{};  // the most that lives while each phase runs
  Peak peak;
  std::vector<OwnedBytes> largest;  // at the peak instant, largest first
};

// One layer over all spaces. kNoLayer is what belongs to none: embeddings, head, the batch.
struct LayerBreakdown {
  int32_t layer = kNoLayer;
  int64_t params = 0;
  int64_t grads = 0;
  int64_t optimizer = 0;
  int64_t kept = 0;          // made in forward and still needed in backward
  int64_t at_peak = 0;       // everything of this layer that lives at the device's peak instant
  double forward_flops = 0;  // of one micro-batch: the cost of recomputing all that is kept

  bool same_costs(const LayerBreakdown& other) const;  // equal in all but the layer's number
};

// One run of one program. Sums are doubles: a step of a large model passes 2^63 operations.
struct ProgramWork {
  std::string name;
  int64_t runs_per_step = 0;
  int64_t ops = 0;
  std::array<double, kPhases> flops{};
  std::array<double, kPhases> bytes_moved{};
};

struct MemoryBreakdown {
  std::array<SpaceBreakdown, kSpaces> spaces;
  std::vector<LayerBreakdown> layers;  // by layer; kNoLayer first where it has any bytes
  std::vector<ProgramWork> programs;
  CategoryBytes shared{};        // bytes of persistent and step-scoped values, over all spaces
  int64_t trainable_params = 0;  // elements
  int64_t frozen_params = 0;
  std::array<double, kPhases> step_flops{};  // over all runs of a step
  std::array<double, kPhases> step_bytes_moved{};

  const SpaceBreakdown& device() const { return spaces[0]; }
  const SpaceBreakdown& operator[](Space space) const { return spaces[static_cast<size_t>(space)]; }
};

SpaceBytes arenas_of(const MemoryBreakdown& memory);

MemoryBreakdown memory_breakdown(const Module& placed, Backend backend = Backend::cpu);

// Live bytes by category during each op of a program, shared values included.
std::vector<CategoryBytes> timeline(const Module& module, int32_t program, Space space);

// Is it made in forward and still needed in backward? What recompute may drop.
bool is_kept(const Module& module, const Value& value);

int64_t total(const CategoryBytes& bytes);

}  // namespace snug
