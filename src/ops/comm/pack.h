// Several values in one row, so that one collective takes them all.
//
//   ValueId row = pack(b, "grads.pack", {bias, norm});
//   // bias at 0, norm at packed(elements of bias), zeros between
#pragma once

#include <vector>

#include "base/units.h"
#include "ir/builder.h"

namespace snug::ops {

// (parts...) -> row [packed(n0) + packed(n1) + ...], all of one dtype. With attr `unit` 1 there is
// nothing between them.
extern const OpDef pack_def;

// What a part of so many elements takes of the row: the next begins where kernels like it.
constexpr int64_t kPackUnit = 64;
constexpr int64_t packed(int64_t elements, int64_t unit = kPackUnit) {
  return round_up(elements, unit);
}

ValueId pack(Builder& b, std::string_view name, std::vector<ValueId> parts,
             int64_t unit = kPackUnit);

void pack_cuda(const KernelArgs& args);

}  // namespace snug::ops
