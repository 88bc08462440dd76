#include "gpu/many_updates.h"

#include "ops/optimizer/update_op.h"
#include "ops/testing/tensor_bytes.h"

namespace snug {

cudaStream_t the_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t s = nullptr;
    cuda::check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "making a stream");
    return s;
  }();
  return stream;
}

void fill(DeviceBuffer& to, SampleInput spec, const std::string& name, cudaStream_t stream) {
  constexpr int64_t kBlock = 1 << 16;
  if (spec.type.shape.elements() > kBlock) spec.type.shape = {kBlock};
  const std::vector<std::byte> block = to_bytes(make_input(spec, name, {}));
  const auto copy = [&](size_t at, const std::byte* from, size_t bytes) {
    cuda::check(cudaMemcpyAsync(to.data() + at, from, bytes, cudaMemcpyDefault, stream),
                "filling an array");
  };
  if (block.empty()) return;
  copy(0, block.data(), block.size());
  for (size_t at = block.size(); at < to.size(); at *= 2)
    copy(at, to.data(), std::min(at, to.size() - at));
}

ManyUpdates::ManyUpdates(const OpDef& def, std::vector<Sample> samples, cudaStream_t stream)
    : def_(def), samples_(std::move(samples)), stream_(stream) {
  const size_t first_scalar = ops::UpdatePorts(def.outputs.size()).lr;
  for (const Sample& s : samples_) {
    Arrays arrays;
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      const bool shared = i >= first_scalar && !arrays_.empty();
      arrays.in.push_back(
          shared ? arrays_[0].in[i]
                 : allocate(s.inputs[i], fmt::format("{}.{}", def.inputs[i].name, arrays_.size())));
    }
    for (size_t o = 0; o < def.outputs.size(); ++o)
      arrays.out.push_back(arrays.in[ops::UpdatePorts::input_of(o)]);
    arrays_.push_back(std::move(arrays));
  }
}

Tensor ManyUpdates::allocate(const SampleInput& spec, const std::string& name) {
  if (spec.fill.kind == Fill::Kind::absent) return {};
  buffers_.emplace_back(spec.type.bytes(), stream_);
  fill(buffers_.back(), spec, name, stream_);
  return {buffers_.back().data(), &spec.type};
}

const Kernel& ManyUpdates::kernel() const {
  return *def_.find_kernel(Backend::cuda, samples_[0].inputs[0].type.dtype);
}

std::vector<KernelArgs> ManyUpdates::calls(const int32_t* predicate) const {
  std::vector<KernelArgs> calls;
  for (size_t i = 0; i < samples_.size(); ++i)
    calls.push_back(
        {arrays_[i].in, arrays_[i].out, {}, samples_[i].attrs, stream_, predicate, Math{}});
  return calls;
}

Cost ManyUpdates::cost() const {
  Cost sum;
  for (const Sample& s : samples_) {
    const OpCase c = build_program(def_, s);
    const Cost cost = cost_of(c.module, c.program().ops[0], Backend::cuda);
    sum.bytes_read += cost.bytes_read;
    sum.bytes_written += cost.bytes_written;
  }
  return sum;
}

std::vector<std::vector<std::byte>> ManyUpdates::download() const {
  std::vector<std::vector<std::byte>> all;
  for (const Arrays& arrays : arrays_) {
    for (const Tensor& t : arrays.out) {
      all.emplace_back(static_cast<size_t>(t.type->bytes()));
      cuda::check(cudaMemcpyAsync(all.back().data(), t.data, all.back().size(),
                                  cudaMemcpyDeviceToHost, stream_),
                  "reading an array");
    }
  }
  cuda::check(cudaStreamSynchronize(stream_), "reading arrays");
  return all;
}

bool ManyUpdates::intact() const {
  return std::ranges::all_of(buffers_, [](const DeviceBuffer& b) { return b.intact(); });
}

}  // namespace snug
