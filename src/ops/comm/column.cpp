#include "ops/comm/column.h"

#include <algorithm>
#include <cstring>

#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

std::vector<Type> infer_column(const OpView& op) {
  const int64_t ranks = op.attrs.i("ranks"), each = op.attrs.i("each");
  const int64_t elements = op.attrs.i("elements"), first = op.attrs.i("first");
  op.require(op.shape(0).rank() == 1 && op.shape(0)[0] % ranks == 0,
             "{} is not a row of each of {}", op.in(0).text(), ranks);
  op.require(first >= 0 && each > 0 && first + each <= op.shape(0)[0] / ranks,
             "{} from {} on are not in a row of {}", each, first, op.shape(0)[0] / ranks);
  op.require(elements > 0 && elements <= ranks * each, "{} of {} rows have no {}", each, ranks,
             elements);
  return {{op.in(0).dtype, {elements}}};
}

Cost cost_column(const OpView& op, std::span<const Type> outputs, Backend) {
  static_cast<void>(op);
  return {.bytes_read = outputs[0].bytes(), .bytes_written = outputs[0].bytes()};
}

void column_cpu(const KernelArgs& a) {
  const int64_t size = size_of(a.out(0).type->dtype);
  const int64_t row = a.in(0).elements() / a.attrs.i("ranks") * size;
  const int64_t each = a.attrs.i("each") * size, all = a.out(0).type->bytes();
  const std::byte* from = a.in<std::byte>(0) + a.attrs.i("first") * size;
  for (int64_t done = 0; done < all; done += each, from += row)
    std::memcpy(a.out<std::byte>(0) + done, from, static_cast<size_t>(std::min(each, all - done)));
}

void reference_column(const RefArgs& a) {
  const auto row = a.in(0).v.size() / static_cast<size_t>(a.attrs.i("ranks"));
  const auto each = static_cast<size_t>(a.attrs.i("each"));
  for (size_t i = 0; i < a.out(0).v.size(); ++i)
    a.out(0).v[i] = a.in(0).v[i / each * row + static_cast<size_t>(a.attrs.i("first")) + i % each];
}

std::vector<Sample> samples_column() {
  const auto sample = [](const char* name, int64_t row, const Column& c) {
    return Sample{
        name,
        {{{Dtype::f64, {c.ranks * row}}}},
        {{"ranks", c.ranks}, {"first", c.first}, {"each", c.each}, {"elements", c.elements}}};
  };
  return {sample("whole", 7, {.ranks = 4, .first = 2, .each = 3, .elements = 12}),
          sample("without padding", 5, {.ranks = 3, .first = 0, .each = 4, .elements = 9}),
          sample("of few ranks", 300, {.ranks = 8, .first = 100, .each = 200, .elements = 17})};
}

}  // namespace

const OpDef column_def{
    .kind = "column",
    .inputs = {"rows"},
    .outputs = {"column"},
    .infer = infer_column,
    .cost = cost_column,
    .kernels = kernels_for({Dtype::f64}, column_cpu, {.run = SNUG_CUDA_KERNEL(column_cuda)}),
    .reference = reference_column,
    .samples = samples_column,
};

ValueId column(Builder& b, std::string_view name, ValueId rows, const Column& c) {
  return b.emit(
      column_def, name, {rows},
      {{"ranks", c.ranks}, {"first", c.first}, {"each", c.each}, {"elements", c.elements}})[0];
}

}  // namespace snug::ops
