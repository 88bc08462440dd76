// Small ops for the tests of this folder, one per fact that lifetimes, text and verifier look at.
// They have no kernels.
#pragma once

#include "ir/builder.h"

namespace snug::toy {

inline std::vector<Type> like_first(const OpView& op) { return {op.in(0)}; }

inline std::vector<Type> infer_add(const OpView& op) {
  op.require(op.in(0) == op.in(1), "a {} differs from b {}", op.in(0).text(), op.in(1).text());
  return {op.in(0)};
}
inline std::vector<Type> infer_norm(const OpView& op) {
  return {op.in(0), {Dtype::f32, {op.shape(0).rows()}}};
}
inline std::vector<Type> infer_twice(const OpView& op) { return {op.in(0), op.in(0)}; }
inline std::vector<Type> infer_count(const OpView&) { return {{Dtype::i32, {}}}; }
inline std::vector<Type> infer_none(const OpView&) { return {}; }
inline std::vector<Type> infer_gather(const OpView& op) {
  return {{op.in(0).dtype, {op.shape(0)[0] * op.attrs.i("ranks")}}};
}
inline std::vector<Type> infer_recv(const OpView& op) {
  return {{Dtype::f32, {op.attrs.i("elements")}}};
}
inline Cost needs_scratch(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = op.shape(0).elements(), .workspace = 512};
}

inline const OpDef unary{
    .kind = "unary", .inputs = {"x"}, .outputs = {"y"}, .infer = like_first, .alias = {{0, 0}}};
inline const OpDef add{
    .kind = "add", .inputs = {"a", "b"}, .outputs = {"sum"}, .infer = infer_add, .alias = {{0, 0}}};
inline const OpDef norm{
    .kind = "norm", .inputs = {"x"}, .outputs = {"y", aux("rstd")}, .infer = infer_norm};
inline const OpDef wgrad{.kind = "wgrad",
                         .inputs = {"dy", optional("dw_sum")},
                         .outputs = {"dw"},
                         .infer = like_first,
                         .cost = needs_scratch,
                         .accumulate = {{0, 1}}};
inline const OpDef twice{.kind = "twice",
                         .inputs = {"x"},
                         .outputs = {"a", "b"},
                         .infer = infer_twice,
                         .alias = {{0, 0}, {1, 0}}};
inline const OpDef update{.kind = "update",
                          .inputs = {"param", "grad"},
                          .outputs = {"next"},
                          .infer = like_first,
                          .alias = {{.output = 0, .input = 0, .must = true}}};
inline const OpDef finite{
    .kind = "finite", .inputs = {variadic("grads")}, .outputs = {"ok"}, .infer = infer_count};
inline const OpDef copy{
    .kind = "copy", .inputs = {"x"}, .outputs = {"y"}, .infer = like_first, .crosses_spaces = true};
inline const OpDef gather{.kind = "gather",
                          .inputs = {"shard"},
                          .outputs = {"full"},
                          .infer = infer_gather,
                          .comm = Comm::collective};
inline const OpDef reduce{.kind = "reduce",
                          .inputs = {"x"},
                          .outputs = {"y"},
                          .infer = like_first,
                          .comm = Comm::collective};
inline const OpDef send{
    .kind = "send", .inputs = {"x"}, .outputs = {}, .infer = infer_none, .comm = Comm::send};
inline const OpDef recv{
    .kind = "recv", .inputs = {}, .outputs = {"y"}, .infer = infer_recv, .comm = Comm::recv};

inline constexpr std::array<const OpDef*, 12> kAll{
    &unary, &add, &norm, &wgrad, &twice, &update, &finite, &copy, &gather, &reduce, &send, &recv};

inline const Type kVector{Dtype::f32, {64}};

// A module with one program "p" and a step value "x" to start from.
struct Fixture {
  Module module{.name = "toy"};
  ValueId x = add_shared(module, "x", kVector, Category::inputs, Scope::step);
  Builder b{module, "p"};

  ValueId unary_on(std::string_view lane, std::string_view name, ValueId in) {
    const ValueId out = b.emit(unary, name, {in})[0];
    b.last().lane = lane;
    return out;
  }
  Lifetime live(ValueId id) const { return module[id].live.value(); }
};

}  // namespace snug::toy
