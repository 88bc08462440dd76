// How close memory-bound kernels come to the memory: each op of a training step at the shapes of
// three models in bf16, its time, the bytes that it must move, and their rate against that of a long
// device-to-device copy and of one that moves as many bytes. Launches run in one graph over several
// sets of arrays, larger together than the cache.
//
//   kernels [part of an op's name]...
#include <algorithm>
#include <cstdio>
#include <span>

#include "base/median.h"
#include "base/units.h"
#include "gpu/device_buffer.h"
#include "gpu/many_ops.h"
#include "gpu/training_samples.h"
#include "hal/cuda/cuda_device.h"
#include "hal/cuda/event.h"
#include "hal/cuda/stream_times.h"
#include "ops/activation/gelu.h"
#include "ops/activation/swiglu.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/optimizer/adamw.h"
#include "ops/optimizer/clip.h"
#include "ops/testing/op_check.h"

namespace snug {
namespace {

constexpr int kLaunches = 20, kWarmUp = 2, kRepeats = 15;
constexpr int64_t kBeyondCache = int64_t{512} << 20;

// The median time of one call among `launches` in a graph; `launch(i)` enqueues the i-th.
template <typename Fn>
double microseconds(const Fn& launch, int launches = kLaunches) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cuda::check(cudaStreamBeginCapture(the_stream(), cudaStreamCaptureModeThreadLocal), "capturing");
  for (int i = 0; i < launches; ++i) launch(i);
  cuda::check(cudaStreamEndCapture(the_stream(), &graph), "capturing");
  cuda::check(cudaGraphInstantiate(&ready, graph, 0), "instantiating a graph");
  std::vector<double> times = cuda::times_ms(the_stream(), kWarmUp + kRepeats, [&](size_t) {
    cuda::check(cudaGraphLaunch(ready, the_stream()), "launching a graph");
  });
  times.erase(times.begin(), times.begin() + kWarmUp);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  return 1e3 * median(std::move(times)) / launches;
}

// Microseconds of a device-to-device copy that reads and writes `bytes` in all. Copies of whole
// mebibytes are the fast ones.
double copy_time(int64_t bytes) {
  constexpr int64_t kStep = int64_t{1} << 20, kLong = int64_t{1} << 30;
  const int64_t half = kStep * std::clamp<int64_t>(ceil_div(bytes, 2 * kStep), 1, kLong / kStep);
  const int64_t sets = ceil_div(kBeyondCache, 2 * half);
  const DeviceBuffer from(sets * half, the_stream()), to(sets * half, the_stream());
  const double time = microseconds([&](int i) {
    const int64_t at = i % sets * half;
    cuda::check(cudaMemcpyAsync(to.data() + at, from.data() + at, static_cast<size_t>(half),
                                cudaMemcpyDeviceToDevice, the_stream()),
                "copying");
  });
  return time * static_cast<double>(bytes) / static_cast<double>(2 * half);
}

// What the memory can do, in bytes per microsecond, and the kernels that are far from it.
class Rates {
 public:
  Rates() : copy_(copy_bytes_per_s(*cuda_device()) / 1e6), nominal_(std::max(copy_, nominal())) {
    fmt::print(
        "device-to-device copy, read + written: {:.0f} GB/s; the memory's clock: {:.0f} GB/s\n",
        copy_ / 1e3, nominal_ / 1e3);
  }

  // Reading alone is faster than copying: the part of an op that hardly writes is of the clock.
  void report(const std::string& shape, std::string_view kind, const Cost& cost, double time) {
    const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
    const bool reads = 10 * cost.bytes_written < cost.bytes_read;
    const double of_copy = 100 * bytes / time / copy_;
    const double part = reads ? of_copy * copy_ / nominal_ : of_copy;
    const double of_equal = 100 * copy_time(cost.bytes_read + cost.bytes_written) / time;
    fmt::print("{:22} {:22} {:9.1f} {:9.1f} {:8.0f} {:6.1f}% {:9.1f}%{}\n", shape, kind, time,
               bytes / 1e6, bytes / time / 1e3, part, of_equal, reads ? "  of the clock" : "");
    std::fflush(stdout);
    if (of_copy < kWanted) slow_.push_back(fmt::format("{} {} {:.1f}%", shape, kind, of_copy));
  }

  void summary() const {
    if (slow_.empty()) {
      fmt::print("\nevery kernel reaches {}% of the copy\n", kWanted);
    } else {
      fmt::print("\nbelow {}% of the copy: {}\n", kWanted, fmt::join(slow_, ", "));
    }
  }

 private:
  static constexpr int kWanted = 85;

  // Two transfers a cycle on every wire of the bus.
  static double nominal() {
    int kilohertz = 0, bits = 0;
    cuda::check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrMemoryClockRate, 0), "asking");
    cuda::check(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, 0), "asking");
    return 2.0 * kilohertz / 1e3 * bits / 8;
  }

  double copy_, nominal_;
  std::vector<std::string> slow_;
};

// A sample's ops on several sets of arrays.
class SampleOnDevice {
 public:
  explicit SampleOnDevice(const TrainingSample& s)
      : sample_(in_dtype(s.sample, Dtype::bf16)), c_(build_program(*s.def, sample_)) {
    add_fused_recompute(c_);
    int64_t bytes = 0;
    for (const Value& v : c_.module.values) bytes += v.type.bytes();
    sets_.resize(static_cast<size_t>(ceil_div(kBeyondCache, bytes)));
    for (std::vector<DeviceBuffer>& set : sets_) {
      for (const Value& v : c_.module.values) set.emplace_back(v.type.bytes(), the_stream());
      fill_given(set);
    }
  }

  void measure(Rates& rates) {
    for (const Op& op : c_.program().ops) measure(op, rates);
  }

 private:
  void fill_given(std::vector<DeviceBuffer>& set) const {
    const auto fill_value = [&](ValueId id, const SampleInput& spec) {
      if (id.valid())
        fill(set[static_cast<size_t>(id.index)], spec, c_.module[id].name, the_stream());
    };
    for (size_t i = 0; i < c_.input_ids.size(); ++i) fill_value(c_.input_ids[i], sample_.inputs[i]);
    for (ValueId id : c_.cotangents) {
      if (id.valid()) fill_value(id, {c_.module[id].type, Fill::normal()});
    }
  }

  void measure(const Op& op, Rates& rates) {
    const Kernel* kernel = op.def->find_kernel(Backend::cuda, kernel_dtype(c_.module, op));
    if (kernel == nullptr) return;
    const Cost cost = cost_of(c_.module, op, Backend::cuda);
    DeviceBuffer scratch(cost.workspace, the_stream());
    const auto call = [&](KernelFn fn, size_t set) {
      std::vector<Tensor> in, out;
      for (ValueId id : op.inputs) in.push_back(id.valid() ? tensor(set, id) : Tensor{});
      for (ValueId id : op.outputs) out.push_back(tensor(set, id));
      for (const Alias& a : op.def->alias) {
        if (a.must) out[static_cast<size_t>(a.output)] = in[static_cast<size_t>(a.input)];
      }
      if (&op == &c_.program().ops[0]) {  // a sum that is given grows in place, as in a step
        for (const Accumulate& sum : op.def->accumulate) {
          const Tensor& given = in.at(static_cast<size_t>(sum.input));
          if (given.data != nullptr) out[static_cast<size_t>(sum.output)] = given;
        }
      }
      fn({in, out, {scratch.data(), scratch.size()}, op.attrs, the_stream()});
    };
    if (kernel->prepare != nullptr) call(kernel->prepare, 0);
    for (size_t set = 0; set < sets_.size(); ++set) call(kernel->run, set);
    const double time =
        microseconds([&](int i) { call(kernel->run, static_cast<size_t>(i) % sets_.size()); });
    rates.report(sample_.name, op.def->kind, cost, time);
  }

  Tensor tensor(size_t set, ValueId id) const {
    return {sets_[set][static_cast<size_t>(id.index)].data(), &c_.module[id].type};
  }

  Sample sample_;
  OpCase c_;
  std::vector<std::vector<DeviceBuffer>> sets_;
};

// What a step's update does: the norm and AdamW, on every parameter of the model in one call.
void measure_update(const ModelShape& m, const OpDef& def, Rates& rates) {
  std::vector<Sample> samples;
  for (int64_t elements : m.parameter_elements())
    samples.push_back(&def == &ops::adamw_master_def ? adamw_master_sample(elements).sample
                      : &def == &ops::adamw_def
                          ? in_dtype(adamw_sample(elements).sample, Dtype::bf16)
                          : in_dtype(sum_squares_sample(elements).sample, Dtype::bf16));
  const ManyOps all(def, std::move(samples), the_stream());
  const std::vector<KernelArgs> calls = all.calls();
  all.kernel().run_many(calls);
  constexpr int kSteps = 3;
  const double time = microseconds([&](int) { all.kernel().run_many(calls); }, kSteps);
  rates.report(m.name, fmt::format("{}, all parameters", def.kind), all.cost(), time);
}

// Which ops: those whose names contain one of the parts, or all.
using Parts = std::span<char* const>;
bool wanted(const OpDef& def, Parts parts) {
  const auto named = [&](std::string_view part) { return def.kind.find(part) != part.npos; };
  return parts.empty() || std::ranges::any_of(parts, named);
}

void measure_model(const ModelShape& m, Parts parts, Rates& rates) {
  for (const TrainingSample& s :
       {norm_sample(m, ops::rms_norm_def), norm_sample(m, ops::residual_rms_norm_def),
        norm_sample(m, ops::layer_norm_def), norm_sample(m, ops::residual_layer_norm_def),
        activation_sample(m, ops::swiglu_def), activation_sample(m, ops::gelu_def), rope_sample(m),
        embedding_sample(m), embedding_grad_sample(m), bias_grad_sample(m),
        adamw_sample(2 * m.F * m.C)}) {
    if (wanted(*s.def, parts)) SampleOnDevice(s).measure(rates);
  }
  for (const OpDef* def : {&ops::sum_squares_def, &ops::adamw_def, &ops::adamw_master_def})
    if (wanted(*def, parts)) measure_update(m, *def, rates);
}

// Layer norms at the widths of two models that have them.
void measure_gpt2(Parts parts, Rates& rates) {
  ModelShape m = qwen_shapes()[0];
  for (const int64_t width : {768, 1024}) {
    m.name = fmt::format("GPT-2, width {}", width);
    m.C = width;
    for (const OpDef* def : {&ops::layer_norm_def, &ops::residual_layer_norm_def}) {
      if (wanted(*def, parts)) SampleOnDevice(norm_sample(m, *def)).measure(rates);
    }
  }
}

}  // namespace
}  // namespace snug

int main(int count, char** words) {
  using namespace snug;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device here: nothing to measure");
    return 0;
  }
  try {
    Rates rates;
    const Parts parts(words + 1, static_cast<size_t>(count - 1));
    fmt::print("\n{:22} {:22} {:>9} {:>9} {:>8} {:>7} {:>10}\n", "shape", "op", "us", "MB", "GB/s",
               "of copy", "of equal");
    for (const ModelShape& m : qwen_shapes()) measure_model(m, parts, rates);
    measure_gpt2(parts, rates);
    rates.summary();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
