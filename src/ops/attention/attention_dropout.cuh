// The masks of attention_dropout_cpu.h on the device: the same bits. Seed, step and sample are read
// there.
#pragma once

#include "ir/op_def.h"
#include "kernels/cuda/mask_bits.cuh"
#include "ops/attention/packed_heads.h"
#include "ops/random.h"

namespace snug::ops {

struct CudaDropout {
  const int64_t* seed = nullptr;
  const int64_t* step = nullptr;
  const int64_t* sample = nullptr;  // global index of the batch's first sample
  uint64_t name = 0;
  int64_t first = 0;       // element of the first head here
  uint32_t threshold = 0;  // 0: off
  float scale = 1;

  constexpr bool on() const { return threshold != 0; }
};

// From the attributes, and inputs seed, step and sample at `port` and the two after it.
inline CudaDropout cuda_dropout(const KernelArgs& a, size_t port) {
  if (!a.attrs.has("p")) return {};
  const double p = a.attrs.f("p");
  return {a.in<int64_t>(port),
          a.in<int64_t>(port + 1),
          a.in<int64_t>(port + 2),
          hash_name(a.attrs.s("key")),
          first_dropped(a),
          drop_threshold(p),
          static_cast<float>(drop_scale(p))};
}

// What the probabilities of one sample are multiplied by.
struct DropoutFactors {
  Key key = 0;
  uint64_t stream = 0;
  int64_t first = 0;
  uint32_t threshold = 0;
  float scale = 1;

  __device__ DropoutFactors(const CudaDropout& d, int64_t b)
      : first(d.first), threshold(d.threshold), scale(d.scale) {
    if (!d.on()) return;
    key = random_key(static_cast<uint64_t>(*d.seed), static_cast<uint64_t>(*d.step), d.name);
    stream = static_cast<uint64_t>(*d.sample + b);
  }
  __device__ bool on() const { return threshold != 0; }

  // Of element (h*T + i)*T + j.
  __device__ float at(int64_t element) const {
    element += first;
    const MaskBits bits(key, static_cast<uint64_t>(element) / 8, stream);
    return (bits.kept(threshold) >> (element % 8) & 1) != 0 ? scale : 0.0F;
  }
};

}  // namespace snug::ops
