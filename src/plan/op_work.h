// What an op does, as far as the time that it takes follows from it.
//
//   const OpWork work = work_of(module, op, Backend::cuda, {});
//   work.kind;   work.flops;   work.has;   // "flash_attention", 1.2e11, no dropout
#pragma once

#include <cstdint>
#include <string>

#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

struct OpWork {
  std::string kind;
  Dtype dtype = Dtype::f32;  // as kernel_dtype says
  bool tf32 = false;
  uint32_t has = 0;  // its optional inputs: bit i for input i. Dropout is another kernel
  double flops = 0;
  double bytes = 0;  // read and written
  double exps = 0;   // as Cost counts them
  friend auto operator<=>(const OpWork&, const OpWork&) = default;
};

OpWork work_of(const Module& module, const Op& op, Backend backend, const Math& math);

uint32_t optional_inputs(const Op& op);

}  // namespace snug
