#include "kernels/cpu/column_sum.h"
#include "kernels/cuda/column_sum.h"
#include "kernels/float_kernels.h"
#include "ops/embedding/embedding.h"
#include "ops/embedding/embedding_attrs.h"
#include "ops/embedding/embedding_cpu.h"
#include "ops/embedding/embedding_cuda.h"
#include "ops/infer.h"
#include "ops/packed_rows.h"
#include "ops/reference.h"

namespace snug::ops {
namespace {

enum In : size_t { kDy, kTokens };              // of the table's gradient
constexpr size_t kTableSum = 2, kOtherSum = 1;  // ports
constexpr size_t kStarts = 2;                   // of the positions' gradient

// dy [B, T, C] -> [rows, C].
std::vector<Type> infer_rows(const OpView& op, size_t sum) {
  op.require(op.shape(kDy).rank() == 3, "dy {} is not [B,T,C]", op.in(kDy).text());
  const Type result{grad_dtype(op, op.in(kDy).dtype), {op.attrs.i("rows"), op.shape(kDy).back()}};
  require_sum(op, sum, result);
  return {result};
}

std::vector<Type> infer(const OpView& op) { return infer_rows(op, kOtherSum); }

std::vector<Type> infer_positions(const OpView& op) {
  std::vector<Type> result = infer(op);
  require_starts(op, kStarts, op.shape(kDy)[0], op.shape(kDy)[1]);
  return result;
}

std::vector<Type> infer_table(const OpView& op) {
  std::vector<Type> result = infer_rows(op, kTableSum);
  op.require(op.in(kTokens) == Type{Dtype::i32, {op.shape(kDy)[0], op.shape(kDy)[1]}},
             "tokens {} do not match dy {}", op.in(kTokens).text(), op.in(kDy).text());
  require_padding(op, op.attrs.i("rows"));
  return result;
}

// On CUDA only the rows of tokens that occur are added to a sum; without one the others are zeros.
Cost cost_rows_cuda(const OpView& op, const Type& dtable, bool add) {
  const int64_t tokens = op.shape(kDy).rows(), C = op.shape(kDy).back();
  const int64_t touched = std::min(tokens, dtable.shape[0]) * C * size_of(dtable.dtype);
  return {.flops = op.shape(kDy).elements(),
          .bytes_read = op.in(kDy).bytes() + tokens * size_of(Dtype::i32) + (add ? touched : 0),
          .bytes_written = touched + (add ? 0 : dtable.bytes()),
          .workspace = EmbeddingGradScratch::of(tokens, C).end};
}

Cost cost_table(const OpView& op, std::span<const Type> outputs, Backend backend) {
  if (backend == Backend::cuda) return cost_rows_cuda(op, outputs[0], op.has(kTableSum));
  return {.flops = op.shape(kDy).elements(),
          .workspace = embedding_grad_workspace(outputs[0].shape[0], op.shape(kTokens).elements())};
}

// With starts positions are in any order, as tokens are: they are written to scratch, and their rows
// are added up as those of a table.
Cost cost_positions(const OpView& op, std::span<const Type> outputs, Backend backend) {
  if (!op.has(kStarts)) return {.flops = op.shape(kDy).elements()};
  const int64_t tokens = op.shape(kDy).rows();
  Cost cost{.flops = op.shape(kDy).elements()};
  if (backend == Backend::cuda) {
    cost = cost_rows_cuda(op, outputs[0], op.has(kOtherSum));
  } else {
    cost.workspace = embedding_grad_workspace(outputs[0].shape[0], tokens);
  }
  cost.workspace =
      checked_add(cost.workspace, positions_scratch(tokens), "embedding_grad_positions' scratch");
  return cost;
}

Cost cost_types(const OpView& op, std::span<const Type>, Backend backend) {
  const int64_t C = op.shape(kDy).back();
  return {.flops = op.shape(kDy).elements(),
          .workspace = backend == Backend::cuda ? cuda_column_sum_scratch(op.shape(kDy).rows(), C)
                                                : column_sum_scratch(C) * size_of(Dtype::f32)};
}

// Adds row r of dy to the row that `row_of` names; kNoRow: to none.
constexpr auto kNoRow = static_cast<size_t>(-1);
template <typename RowOf>
void scatter(const OpDef& def, const RefArgs& a, RowOf&& row_of, double scale = 1) {
  const auto C = static_cast<size_t>(a.in(kDy).shape().back());
  for (size_t i = 0; i < a.in(kDy).v.size(); ++i) {
    const size_t row = row_of(i / C);
    if (row != kNoRow) a.out(0).v[row * C + i % C] += scale * a.in(kDy).v[i];
  }
  add_accumulators(def, a);
}

void reference_table(const RefArgs& a) {
  const int64_t rows = a.out(0).shape()[0];
  scatter(
      embedding_grad_def, a,
      [&](size_t r) {
        const int32_t row = row_of_word(static_cast<int32_t>(a.in(kTokens).v[r]),
                                        first_word(a.attrs), rows, padding_of(a.attrs));
        return row == rows ? kNoRow : static_cast<size_t>(row);
      },
      scale_of(a.attrs));
}
void reference_positions(const RefArgs& a) {
  const int64_t T = a.in(kDy).shape()[1];
  scatter(embedding_grad_positions_def, a, [&](size_t r) {
    return static_cast<size_t>(position_in_sample(a, kStarts, static_cast<int64_t>(r), T) +
                               first_position(a.attrs));
  });
}
void reference_types(const RefArgs& a) {
  scatter(embedding_grad_types_def, a, [](size_t) { return size_t{0}; });
}

}  // namespace

const OpDef embedding_grad_def{
    .kind = "embedding_grad",
    .inputs = {"dy", "tokens", optional("dtable_sum")},
    .outputs = {"dtable"},
    .infer = infer_table,
    .cost = cost_table,
    .accumulate = {{.output = 0, .input = 2}},
    .splits = {{"rows", {0, 0, Split::kWhole}, {Split::kPartial}}},
    .kernels = float_kernels(embedding_grad_cpu, {.run = SNUG_CUDA_KERNEL(embedding_grad_cuda)}),
    .reference = reference_table,
};

const OpDef embedding_grad_positions_def{
    .kind = "embedding_grad_positions",
    .inputs = {"dy", optional("dpositions_sum"), optional("starts")},
    .outputs = {"dpositions"},
    .infer = infer_positions,
    .cost = cost_positions,
    .accumulate = {{.output = 0, .input = 1}},
    .splits = {{"rows", {0, Split::kWhole, 0}, {Split::kPartial}}},
    .kernels = float_kernels(embedding_grad_positions_cpu,
                             {.run = SNUG_CUDA_KERNEL(embedding_grad_positions_cuda)}),
    .reference = reference_positions,
};

const OpDef embedding_grad_types_def{
    .kind = "embedding_grad_types",
    .inputs = {"dy", optional("dtypes_sum")},
    .outputs = {"dtypes"},
    .infer = infer,
    .cost = cost_types,
    .accumulate = {{.output = 0, .input = 1}},
    .splits = {{"rows", {0, Split::kWhole}, {Split::kPartial}}},
    .kernels = float_kernels(embedding_grad_types_cpu,
                             {.run = SNUG_CUDA_KERNEL(embedding_grad_types_cuda)}),
    .reference = reference_types,
};

}  // namespace snug::ops
