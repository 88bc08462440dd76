#include "gpu/cuda_runner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace snug {
namespace {

constexpr std::byte kOtherPoison{0x7B};

// For initcheck, to which poison would look like content.
bool poisons() { return std::getenv("SNUG_NO_POISON") == nullptr; }

// One op's arrays on the device, as its kernel gets them.
class DeviceOp {
 public:
  DeviceOp(const OpCase& c, const Op& op, const std::vector<Shared>& shared, cudaStream_t stream)
      : c_(c), op_(op), shared_(shared), scratch_(workspace(), stream) {
    for (ValueId id : op.inputs) {
      inputs_.emplace_back(id.valid() ? c.module[id].type.bytes() : 0, stream);
      in_.push_back(id.valid() ? Tensor{inputs_.back().data(), &c.module[id].type} : Tensor{});
    }
    for (ValueId id : op.outputs) {
      outputs_.emplace_back(c.module[id].type.bytes(), stream);
      out_.push_back({outputs_.back().data(), &c.module[id].type});
    }
    for (auto [o, i] : shared) out_[static_cast<size_t>(o)].data = in_[static_cast<size_t>(i)].data;
  }

  KernelArgs args(const Math& math, cudaStream_t stream, const int32_t* predicate) const {
    return {in_, out_, {scratch_.data(), scratch_.size()}, op_.attrs, stream, predicate, math};
  }

  void poison(std::byte value) {
    if (!poisons()) return;
    scratch_.fill(value);
    for (DeviceBuffer& b : inputs_) b.fill(value);
    for (DeviceBuffer& b : outputs_) b.fill(value);
  }
  void upload(const Buffers& values) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (op_.inputs[i].valid()) inputs_[i].upload(of_input(values, i).data());
    }
  }

  // Fails where anything but the outputs was written.
  void expect_rest_untouched(const Buffers& values) const {
    EXPECT_TRUE(scratch_.intact())
        << op_.def->kind << " writes beyond its workspace of " << scratch_.size() << " bytes";
    for (size_t i = 0; i < inputs_.size(); ++i) {
      EXPECT_TRUE(inputs_[i].intact())
          << op_.def->kind << " writes outside its input " << op_.def->port_of_input(i).name;
      if (is_written(shared_, i) || !op_.inputs[i].valid()) continue;
      EXPECT_TRUE(on_host(inputs_[i]) == of_input(values, i))
          << op_.def->kind << " changes its input " << op_.def->port_of_input(i).name;
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      EXPECT_TRUE(outputs_[o].intact())
          << op_.def->kind << " writes outside its output " << op_.def->outputs[o].name;
    }
  }

  Buffers download() const {
    std::vector<const DeviceBuffer*> from;
    for (const DeviceBuffer& b : outputs_) from.push_back(&b);
    for (auto [o, i] : shared_) from[static_cast<size_t>(o)] = &inputs_[static_cast<size_t>(i)];
    Buffers outputs;
    for (const DeviceBuffer* b : from) outputs.push_back(on_host(*b));
    return outputs;
  }

 private:
  int64_t workspace() const { return cost_of(c_.module, op_, Backend::cuda).workspace; }
  const Guarded& of_input(const Buffers& values, size_t i) const {
    return values[static_cast<size_t>(op_.inputs[i].index)];
  }
  static Guarded on_host(const DeviceBuffer& b) {
    Guarded copy(static_cast<int64_t>(b.size()));
    b.download(copy.data());
    return copy;
  }

  const OpCase& c_;
  const Op& op_;
  std::vector<Shared> shared_;
  DeviceBuffer scratch_;
  std::vector<DeviceBuffer> inputs_, outputs_;
  std::vector<Tensor> in_, out_;
};

// A graph of what is enqueued while it lives.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                "starting a capture");
  }
  ~Capture() {
    if (!ended_) cudaStreamEndCapture(stream_, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void launch() {
    ended_ = true;
    cuda::check(cudaStreamEndCapture(stream_, &graph_), "capturing the kernel into a graph");
    cudaGraphExec_t ready = nullptr;
    cuda::check(cudaGraphInstantiate(&ready, graph_, 0), "instantiating the graph");
    const cudaError_t status = cudaGraphLaunch(ready, stream_);
    cudaStreamSynchronize(stream_);  // what went wrong on the device, the runner finds
    cudaGraphExecDestroy(ready);
    cuda::check(status, "launching the graph");
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

// What an op whose predicate holds 0 leaves in its outputs.
Buffers untouched(const OpCase& c, const Op& op, const Buffers& values) {
  Buffers outputs;
  for (ValueId id : op.outputs) outputs.emplace_back(c.module[id].type.bytes());
  for (auto [o, i] : with_demanded(op, {})) {
    const ValueId input = op.inputs[static_cast<size_t>(i)];
    outputs[static_cast<size_t>(o)] = values[static_cast<size_t>(input.index)];
  }
  return outputs;
}

const Kernel& row_of(const OpCase& c, const Op& op) {
  return *op.def->find_kernel(Backend::cuda, kernel_dtype(c.module, op));
}

}  // namespace

CudaRunner::CudaRunner(const Math& math) : math_(math) {
  cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}
CudaRunner::~CudaRunner() { cudaStreamDestroy(stream_); }

Buffers CudaRunner::run(const OpCase& c, const Op& op, const Buffers& values,
                        const std::vector<Shared>& shared) {
  return run(c, op, values, shared, How{});
}

std::vector<std::pair<std::string, Buffers>> CudaRunner::again(const OpCase& c, const Op& op,
                                                               const Buffers& values) {
  if (!repeats_bits()) return {};
  const bool predicated = row_of(c, op).predicated;
  if (predicated && poisons()) {
    EXPECT_TRUE(run(c, op, values, {}, {.predicate = 0}) == untouched(c, op, values))
        << op.def->kind << " writes its outputs although its predicate holds 0";
  }
  How graph{.poison = kOtherPoison, .as_graph = true};
  if (predicated) graph.predicate = 1;
  std::vector<std::pair<std::string, Buffers>> runs;
  runs.emplace_back("in a graph over other memory", run(c, op, values, {}, graph));
  return runs;
}

Buffers CudaRunner::run(const OpCase& c, const Op& op, const Buffers& values,
                        const std::vector<Shared>& shared, const How& how) {
  const Kernel& kernel = row_of(c, op);
  DeviceBuffer predicate(sizeof(int32_t), stream_);
  if (how.predicate) predicate.upload(reinterpret_cast<const std::byte*>(&*how.predicate));
  DeviceOp device(c, op, with_demanded(op, shared), stream_);
  device.poison(how.poison);
  const KernelArgs args = device.args(
      math_, stream_, how.predicate ? reinterpret_cast<const int32_t*>(predicate.data()) : nullptr);
  if (kernel.prepare != nullptr) {
    enqueue(kernel.prepare, args, /*as_graph=*/false);
    finish(c, op);
    device.poison(how.poison);
  }
  device.upload(values);
  enqueue(kernel.run, args, how.as_graph);
  finish(c, op);
  device.expect_rest_untouched(values);
  return device.download();
}

void CudaRunner::enqueue(KernelFn kernel, const KernelArgs& args, bool as_graph) {
  if (!as_graph) return kernel(args);
  Capture capture(stream_);
  kernel(args);
  capture.launch();
}

// Errors that stay with the context would fail every later test: they end the process.
void CudaRunner::finish(const OpCase& c, const Op& op) {
  const cudaError_t status = cudaDeviceSynchronize();
  if (status == cudaSuccess) return;
  const std::string where = fmt::format("{} '{}' in {}, sample '{}'", op.def->kind, op.name,
                                        name_of(kernel_dtype(c.module, op)), c.sample);
  cudaGetLastError();
  if (cudaDeviceSynchronize() == cudaSuccess) cuda::check(status, "running {}", where);
  std::fflush(stdout);
  fmt::print(stderr,
             "\n{} broke the CUDA context: {} ({}). Nothing can run after it in this process; "
             "the remaining tests are not run.\n",
             where, cudaGetErrorString(status), cudaGetErrorName(status));
  std::fflush(stderr);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace snug
