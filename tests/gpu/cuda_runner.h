// An op's CUDA kernel for the checks of ops/testing: on device memory between canaries, prepared
// first where the kernel wants that, on a stream or captured into a graph.
#pragma once

#include <optional>

#include "gpu/device_buffer.h"
#include "hal/testing/needs_cuda.h"
#include "ops/testing/op_runner.h"

namespace snug {

class CudaRunner final : public OpRunner {
 public:
  explicit CudaRunner(const Math& math);
  ~CudaRunner() override;
  CudaRunner(const CudaRunner&) = delete;
  CudaRunner& operator=(const CudaRunner&) = delete;

  Backend backend() const override { return Backend::cuda; }
  bool repeats_bits() const override { return math_.deterministic; }
  Buffers run(const OpCase& c, const Op& op, const Buffers& values,
              const std::vector<Shared>& shared) override;
  // As a graph over another poison: a kernel that waits or allocates, or leaves a byte unwritten,
  // is found. Fails where a kernel that heeds a predicate does anything when it holds 0.
  std::vector<std::pair<std::string, Buffers>> again(const OpCase& c, const Op& op,
                                                     const Buffers& values) override;

 private:
  struct How {
    std::byte poison = kUnwritten;
    bool as_graph = false;
    std::optional<int32_t> predicate = {};
  };
  Buffers run(const OpCase& c, const Op& op, const Buffers& values,
              const std::vector<Shared>& shared, const How& how);
  void enqueue(KernelFn kernel, const KernelArgs& args, bool as_graph);
  void finish(const OpCase& c, const Op& op);

  Math math_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace snug
