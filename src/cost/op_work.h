// What an op does, as far as the time that it takes follows from it.
//
//   const OpWork work = work_of(module, op, Backend::cuda, {});
//   work.kind;   work.flops;   work.has;   // "flash_attention", 1.2e11, no dropout
#pragma once

#include <cstdint>
#include <string>

#include "cost/device_catalogue.h"
#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

struct OpWork {
  std::string kind;
  Dtype dtype = Dtype::f32;  // as kernel_dtype says
  bool tf32 = false;
  uint32_t has = 0;  // as kernel_bits says
  double flops = 0;
  double bytes = 0;  // read and written
  double exps = 0;   // as Cost counts them
  friend auto operator<=>(const OpWork&, const OpWork&) = default;
};

OpWork work_of(const Module& module, const Op& op, Backend backend, const Math& math);

// Is the op bound by arithmetic (a matmul, attention) rather than by its bytes?
bool is_arithmetic(const Cost& cost);

// A matmul that is bound by arithmetic.
bool is_large_matmul(const Op& op, const Cost& cost);

// What makes another kernel of an op that costs so much: bit i for its optional input i (dropout, a
// sum); for a matmul on a GPU kOdd, where rows of its matrices are no multiple of the 16 bytes
// that fast ones go by (logits as a value, over a vocabulary of 50257; a fused loss pads its rows);
// kVariant, where the op's own cost says that another kernel serves it; and on a GPU its server,
// where that is not cuDNN: samples of one server say nothing of another.
constexpr uint32_t kOdd = uint32_t{1} << 31;
constexpr uint32_t kVariant = uint32_t{1} << 30;
constexpr uint32_t kOwnTensorCores = uint32_t{1} << 29;
constexpr uint32_t kPlainTiles = uint32_t{1} << 28;
constexpr uint32_t kServers = kOwnTensorCores | kPlainTiles;
uint32_t kernel_bits(const Module& module, const Op& op, Backend backend, const Cost& cost,
                     const Math& math);

// How long work takes at a device's peaks. Plain tiles compute in fp32, whatever they read.
Roof roof_of(const DeviceSpec& device, const OpWork& work);

}  // namespace snug
