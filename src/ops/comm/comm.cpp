#include "ops/comm/comm.h"

#include "base/units.h"
#include "ops/type_attrs.h"

namespace snug::ops {
namespace {

// --- collectives --------------------------------------------------------------------------------
// ------------------------------------------------------------------------------------------------------

int64_t ranks_of(const OpView& op) {
  const int64_t ranks = op.attrs.i("ranks");
  op.require(ranks >= 1, "{} ranks on axis '{}'", ranks, op.attrs.s("axis"));
  return ranks;
}

// The input with its dim 0 cut or multiplied.
Type with_front(const Type& type, int64_t front) {
  std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
  dims[0] = front;
  return {type.dtype, Shape(dims)};
}

std::vector<Type> infer_same(const OpView& op) {
  ranks_of(op);
  return {op.in(0)};
}

std::vector<Type> infer_gather(const OpView& op) {
  const int64_t ranks = ranks_of(op);
  op.require(op.shape(0).rank() >= 1, "shard {} has no axis to gather along", op.in(0).text());
  return {with_front(op.in(0), checked_mul(op.shape(0)[0], ranks, "a gathered axis"))};
}

std::vector<Type> infer_exchange(const OpView& op) {
  const int64_t ranks = ranks_of(op);
  op.require(op.shape(0).rank() >= 1 && op.shape(0)[0] % ranks == 0,
             "{} is not a block for each of {} ranks", op.in(0).text(), ranks);
  return {op.in(0)};
}

std::vector<Type> infer_scatter(const OpView& op) {
  const int64_t ranks = ranks_of(op);
  op.require(op.shape(0).rank() >= 1 && op.shape(0)[0] % ranks == 0,
             "full {} does not divide over {} ranks", op.in(0).text(), ranks);
  return {with_front(op.in(0), op.shape(0)[0] / ranks)};
}

std::vector<Type> infer_gather_rows(const OpView& op) {
  const int64_t batch = op.attrs.i("batch"), length = op.attrs.i("length");
  op.require(op.shape(0).rank() == 2 && op.shape(0)[0] * ranks_of(op) == batch * length,
             "{} of each of {} ranks are not the tokens of [{},{}]", op.in(0).text(), ranks_of(op),
             batch, length);
  return {{op.in(0).dtype, {batch, length, op.shape(0)[1]}}};
}

std::vector<Type> infer_scatter_rows(const OpView& op) {
  const int64_t ranks = ranks_of(op);
  op.require(op.shape(0).rank() == 3 && op.shape(0).rows() % ranks == 0,
             "the tokens of {} do not divide over {} ranks", op.in(0).text(), ranks);
  return {{op.in(0).dtype, {op.shape(0).rows() / ranks, op.shape(0).back()}}};
}

void grad_of_gather_rows(GradContext& g) {
  Attrs attrs = g.attrs();
  g.set(0, g.emit(scatter_rows_def, {g.dout(0)}, std::move(attrs))[0]);
}

void grad_of_scatter_rows(GradContext& g) {
  Attrs attrs = g.attrs();
  const Shape& all = g.type(g.in(0)).shape;
  attrs.set("batch", all[0]);
  attrs.set("length", all[1]);
  g.set(0, g.emit(gather_rows_def, {g.dout(0)}, std::move(attrs))[0]);
}

// What one rank sends and receives in a ring: it passes on every block but its own, once or
// (all_reduce) twice.
Cost ring(int64_t full_bytes, int64_t ranks, int64_t rounds) {
  const int64_t moved = rounds * (full_bytes - full_bytes / ranks);
  return {.bytes_read = moved, .bytes_written = moved};
}
Cost cost_gather(const OpView& op, std::span<const Type> outputs, Backend) {
  return ring(outputs[0].bytes(), ranks_of(op), 1);
}
Cost cost_scatter(const OpView& op, std::span<const Type>, Backend) {
  return ring(op.in(0).bytes(), ranks_of(op), 1);
}
Cost cost_all_reduce(const OpView& op, std::span<const Type>, Backend) {
  return ring(op.in(0).bytes(), ranks_of(op), 2);
}

Attrs attrs_of(const Collective& c) {
  Attrs attrs{{"axis", c.axis}, {"ranks", c.ranks}, {"seq", c.seq}};
  if (c.stride != 1) attrs.set("stride", c.stride);
  return attrs;
}

ValueId emit(Builder& b, const OpDef& def, std::string_view name, ValueId x, const Collective& c) {
  return b.emit(def, name, {x}, attrs_of(c))[0];
}

// --- messages -----------------------------------------------------------------------------------
// ---------------------------------------------------------------------------------------------------------

std::vector<Type> infer_send(const OpView&) { return {}; }
std::vector<Type> infer_recv(const OpView& op) { return {type_from_attrs(op)}; }

// Both ends are busy with all of it.
Cost cost_send(const OpView& op, std::span<const Type>, Backend) {
  return {.bytes_read = op.in(0).bytes(), .bytes_written = op.in(0).bytes()};
}
Cost cost_recv(const OpView&, std::span<const Type> outputs, Backend) {
  return {.bytes_read = outputs[0].bytes(), .bytes_written = outputs[0].bytes()};
}

Attrs attrs_of(const Message& m) {
  Attrs attrs{{"axis", m.axis}, {"peer", m.peer}, {"seq", m.seq}};
  if (!m.lane.empty()) attrs.set("lane", m.lane);
  if (m.ranks > 0) attrs.set("ranks", m.ranks);
  if (m.stride != 1) attrs.set("stride", m.stride);
  return attrs;
}

}  // namespace

const OpDef all_gather_def{
    .kind = "all_gather",
    .inputs = {"shard"},
    .outputs = {"full"},
    .infer = infer_gather,
    .cost = cost_gather,
    .comm = Comm::collective,
    .collective = CollectiveKind::gather,
};

const OpDef all_to_all_def{
    .kind = "all_to_all",
    .inputs = {"blocks"},
    .outputs = {"blocks"},
    .infer = infer_exchange,
    .cost = cost_scatter,
    .comm = Comm::collective,
    .collective = CollectiveKind::exchange,
};

// What it makes is larger than what it reads, by the number of ranks: the first to be recomputed.
const OpDef gather_rows_def{
    .kind = "gather_rows",
    .inputs = {"rows"},
    .outputs = {"all"},
    .infer = infer_gather_rows,
    .grad = grad_of_gather_rows,
    .cost = cost_gather,
    .selective = true,
    .comm = Comm::collective,
    .collective = CollectiveKind::gather,
};

const OpDef scatter_rows_def{
    .kind = "scatter_rows",
    .inputs = {"all"},
    .outputs = {"rows"},
    .infer = infer_scatter_rows,
    .grad = grad_of_scatter_rows,
    .cost = cost_scatter,
    .comm = Comm::collective,
    .collective = CollectiveKind::reduce_scatter,
};

const OpDef reduce_scatter_def{
    .kind = "reduce_scatter",
    .inputs = {"full"},
    .outputs = {"shard"},
    .infer = infer_scatter,
    .cost = cost_scatter,
    .comm = Comm::collective,
    .collective = CollectiveKind::reduce_scatter,
};

const OpDef all_reduce_def{
    .kind = "all_reduce",
    .inputs = {"x"},
    .outputs = {"y"},
    .infer = infer_same,
    .cost = cost_all_reduce,
    .alias = {{.output = 0, .input = 0}},
    .comm = Comm::collective,
    .collective = CollectiveKind::all_reduce,
};

const OpDef broadcast_def{
    .kind = "broadcast",
    .inputs = {"x"},
    .outputs = {"y"},
    .infer = infer_same,
    .alias = {{.output = 0, .input = 0}},
    .comm = Comm::collective,
    .collective = CollectiveKind::broadcast,
};

const OpDef send_def{
    .kind = "send",
    .inputs = {"x"},
    .outputs = {},
    .infer = infer_send,
    .cost = cost_send,
    .comm = Comm::send,
};

const OpDef recv_def{
    .kind = "recv",
    .inputs = {},
    .outputs = {"x"},
    .infer = infer_recv,
    .cost = cost_recv,
    .comm = Comm::recv,
};

ValueId all_gather(Builder& b, std::string_view name, ValueId shard, const Collective& c) {
  return emit(b, all_gather_def, name, shard, c);
}
ValueId gather_rows(Builder& b, std::string_view name, ValueId rows, int64_t batch, int64_t length,
                    const Collective& c) {
  Attrs attrs = attrs_of(c);
  attrs.set("batch", batch);
  attrs.set("length", length);
  return b.emit(gather_rows_def, name, {rows}, std::move(attrs))[0];
}
ValueId scatter_rows(Builder& b, std::string_view name, ValueId all, const Collective& c) {
  return emit(b, scatter_rows_def, name, all, c);
}
ValueId all_to_all(Builder& b, std::string_view name, ValueId blocks, const Collective& c) {
  return emit(b, all_to_all_def, name, blocks, c);
}
ValueId reduce_scatter(Builder& b, std::string_view name, ValueId full, const Collective& c) {
  return emit(b, reduce_scatter_def, name, full, c);
}
ValueId all_reduce(Builder& b, std::string_view name, ValueId x, const Collective& c) {
  return emit(b, all_reduce_def, name, x, c);
}
ValueId broadcast(Builder& b, std::string_view name, ValueId x, const Collective& c) {
  return emit(b, broadcast_def, name, x, c);
}

void send(Builder& b, std::string_view name, ValueId x, const Message& m) {
  b.emit(send_def, name, {x}, attrs_of(m));
}
ValueId recv(Builder& b, std::string_view name, Type type, const Message& m) {
  Attrs attrs = attrs_of(m);
  set_type(attrs, type);
  return b.emit(recv_def, name, {}, std::move(attrs))[0];
}

}  // namespace snug::ops
