#include "ops/comm/rank_sum.h"

#include "base/parallel.h"
#include "base/units.h"
#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

int64_t ranks_of_sum(const OpView& op) {
  const int64_t ranks = op.attrs.i("ranks");
  op.require(ranks >= 1 && op.shape(0).rank() == 1 && op.shape(0)[0] % ranks == 0,
             "{} is not a block for each of {} ranks", op.in(0).text(), ranks);
  return ranks;
}

std::vector<Type> infer_sum(const OpView& op) {
  const int64_t elements = op.attrs.i("elements"), block = op.shape(0)[0] / ranks_of_sum(op);
  const int64_t first = op.attrs.i("first", 0);
  op.require(first >= 0 && elements >= 0 && elements <= block - first,
             "{} elements from {} on of blocks of {}", elements, first, block);
  const Type sum{op.in(0).dtype, {op.attrs.has("first") ? elements : block}};
  op.require(!op.has(1) || op.in(1) == sum, "it adds {} to {}", sum.text(),
             op.has(1) ? op.in(1).text() : "");
  return {sum};
}

// Of a row it reads a part.
Cost cost_sum(const OpView& op, std::span<const Type> outputs, Backend) {
  const int64_t added =
      op.attrs.has("first") ? op.attrs.i("elements") * op.attrs.i("ranks") : op.shape(0)[0];
  return {.flops = added,
          .bytes_read = added * size_of(op.in(0).dtype) + (op.has(1) ? op.in(1).bytes() : 0),
          .bytes_written = outputs[0].bytes()};
}

void rank_sum_cpu(const KernelArgs& a) {
  const int64_t ranks = a.attrs.i("ranks"), elements = a.attrs.i("elements");
  const int64_t n = a.out(0).elements(), block = a.in(0).elements() / ranks;
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* blocks = a.in<T>(0) + a.attrs.i("first", 0);
    const T* before = a.in<T>(1);
    T* out = a.out<T>(0);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      float sum = before != nullptr ? static_cast<float>(before[i]) : static_cast<float>(blocks[i]);
      for (int64_t r = before != nullptr ? 0 : 1; r < ranks; ++r)
        sum += static_cast<float>(blocks[r * block + i]);
      out[i] = i < elements ? T(sum) : T(0.0F);
    }
  });
}

void reference_sum(const RefArgs& a) {
  const auto elements = static_cast<size_t>(a.attrs.i("elements"));
  std::vector<double>& out = a.out(0).v;
  const std::vector<double>& blocks = a.in(0).v;
  const size_t block = blocks.size() / static_cast<size_t>(a.attrs.i("ranks"));
  const auto first = static_cast<size_t>(a.attrs.i("first", 0));
  for (size_t i = 0; i < out.size(); ++i) {
    if (a.has(1)) out[i] = a.in(1).v[i];
    for (size_t at = first + i; at < blocks.size(); at += block) out[i] += blocks[at];
    if (i >= elements) out[i] = 0;
  }
}

std::vector<Sample> samples_sum() {
  const auto sample = [](const char* name, int64_t ranks, int64_t n, int64_t elements, bool adds) {
    return Sample{
        name,
        {{{Dtype::f32, {ranks * n}}}, {{Dtype::f32, {n}}, adds ? Fill::normal() : Fill::absent()}},
        {{"ranks", ranks}, {"elements", elements}}};
  };
  Sample row = sample("of a row", 3, 192, 70, false);
  row.attrs.set("first", 64);
  Sample odd = sample("of an odd row", 3, 70, 64, false);
  odd.attrs.set("first", 0);
  return {std::move(row),
          std::move(odd),
          sample("three ranks", 3, 1000, 1000, false),
          sample("added", 4, 513, 513, true),
          sample("with padding", 2, 64, 41, true),
          sample("one rank", 1, 77, 77, true),
          sample("nothing but padding", 2, 8, 0, false)};
}

}  // namespace

const OpDef rank_sum_def{
    .kind = "rank_sum",
    .inputs = {"blocks", optional("accumulator")},
    .outputs = {"sum"},
    .infer = infer_sum,
    .cost = cost_sum,
    .accumulate = {{.output = 0, .input = 1}},
    .kernels = float_kernels(rank_sum_cpu, {.run = SNUG_CUDA_KERNEL(rank_sum_cuda)}),
    .reference = reference_sum,
    .samples = samples_sum,
};

ValueId rank_sum(Builder& b, std::string_view name, ValueId blocks, const RankSum& s,
                 ValueId accumulator) {
  Attrs attrs{{"ranks", s.ranks}, {"elements", s.elements}};
  if (s.first >= 0) attrs.set("first", s.first);
  return b.emit(rank_sum_def, name, {blocks, accumulator}, std::move(attrs))[0];
}

}  // namespace snug::ops
