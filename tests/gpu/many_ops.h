// Several ops of one kind, as a program's would be: in place where they must, on arrays of their
// own, with scalars in common.
#pragma once

#include <vector>

#include "gpu/device_buffer.h"
#include "ops/testing/op_case.h"

namespace snug {

// The one that tests and benchmarks enqueue on.
cudaStream_t the_stream();

// Numbers as `spec` says: a block of them, over and over.
void fill(DeviceBuffer& to, SampleInput spec, const std::string& name, cudaStream_t stream);

class ManyOps {
 public:
  // `samples`: inputs and attributes of each op. The scalars are the first sample's.
  ManyOps(const OpDef& def, std::vector<Sample> samples, cudaStream_t stream);

  const Kernel& kernel() const;
  std::vector<KernelArgs> calls(const int32_t* predicate = nullptr) const;
  Cost cost() const;

  // Every output.
  std::vector<std::vector<std::byte>> download() const;
  bool intact() const;  // nothing was written outside of the arrays

 private:
  struct Arrays {
    std::vector<Tensor> in, out;
    std::span<std::byte> scratch;
  };
  DeviceBuffer& allocate(int64_t bytes);
  Tensor input(const SampleInput& spec, const std::string& name);
  Arrays arrays_of(size_t op);

  const OpDef& def_;
  std::vector<Sample> samples_;
  std::vector<OpCase> cases_;  // by sample
  cudaStream_t stream_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<Arrays> arrays_;
};

}  // namespace snug
