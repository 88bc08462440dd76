#include "gpu/many_ops.h"

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

ManyOps::ManyOps(const OpDef& def, std::vector<Sample> samples, cudaStream_t stream)
    : def_(def), samples_(std::move(samples)), stream_(stream) {
  for (const Sample& s : samples_) cases_.push_back(build_program(def, s));
  for (size_t op = 0; op < samples_.size(); ++op) arrays_.push_back(arrays_of(op));
}

ManyOps::Arrays ManyOps::arrays_of(size_t op) {
  const Sample& s = samples_[op];
  const OpCase& c = cases_[op];
  Arrays arrays;
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const bool shared = s.inputs[i].type.shape.rank() == 0 && op > 0;
    arrays.in.push_back(shared ? arrays_[0].in[i]
                               : input(s.inputs[i], fmt::format("{}.{}", i, op)));
  }
  arrays.out.resize(c.outputs.size());
  for (const Alias& a : def_.alias) {
    if (a.must) arrays.out[static_cast<size_t>(a.output)] = arrays.in[static_cast<size_t>(a.input)];
  }
  for (size_t o = 0; o < c.outputs.size(); ++o) {
    const Type& type = c.module[c.outputs[o]].type;
    if (arrays.out[o].type == nullptr) arrays.out[o] = {allocate(type.bytes()).data(), &type};
  }
  const DeviceBuffer& scratch =
      allocate(cost_of(c.module, c.program().ops[0], Backend::cuda).workspace);
  arrays.scratch = {scratch.data(), scratch.size()};
  return arrays;
}

// Its content is no number of any float type, until it is written.
DeviceBuffer& ManyOps::allocate(int64_t bytes) {
  buffers_.emplace_back(bytes, stream_).fill(std::byte{0xFF});
  return buffers_.back();
}

Tensor ManyOps::input(const SampleInput& spec, const std::string& name) {
  if (spec.fill.kind == Fill::Kind::absent) return {};
  DeviceBuffer& buffer = allocate(spec.type.bytes());
  fill(buffer, spec, name, stream_);
  return {buffer.data(), &spec.type};
}

const Kernel& ManyOps::kernel() const {
  return *def_.find_kernel(Backend::cuda, samples_[0].inputs[0].type.dtype);
}

std::vector<KernelArgs> ManyOps::calls(const int32_t* predicate) const {
  std::vector<KernelArgs> calls;
  for (size_t i = 0; i < samples_.size(); ++i)
    calls.push_back({arrays_[i].in, arrays_[i].out, arrays_[i].scratch, samples_[i].attrs, stream_,
                     predicate, Math{}});
  return calls;
}

Cost ManyOps::cost() const {
  Cost sum;
  for (const OpCase& c : cases_) {
    const Cost cost = cost_of(c.module, c.program().ops[0], Backend::cuda);
    sum.bytes_read += cost.bytes_read;
    sum.bytes_written += cost.bytes_written;
  }
  return sum;
}

std::vector<std::vector<std::byte>> ManyOps::download() const {
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

bool ManyOps::intact() const {
  return std::ranges::all_of(buffers_, [](const DeviceBuffer& b) { return b.intact(); });
}

}  // namespace snug
