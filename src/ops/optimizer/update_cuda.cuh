// The frame of every update on CUDA: a thread opens eight elements of each array as floats, asks
// the method's rule (update_math.h) how far each parameter moves, and stores them again; a master
// also rounded, as its weight. One launch updates many parameters. The numbers that are the same for
// all elements are made on the device from its scalars, once per block.
//   void sgd_cuda(const KernelArgs& a) { launch_updates<Sgd>({&a, 1}); }
//   void sgd_many_cuda(std::span<const KernelArgs> all) { launch_updates<Sgd>(all); }
#pragma once

#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "ops/optimizer/eight.cuh"
#include "ops/optimizer/update_math.h"
#include "ops/optimizer/update_op.h"

namespace snug::ops {

constexpr int kUpdateThreads = 256;

// What is an op's own.
struct UpdateArrays {
  void* param;
  const void* grad;
  void* states[2];
  void* weight;  // rounded from the parameter, or nullptr
  int64_t n;
  uint64_t name;
  double weight_decay;
  uint32_t first;        // in a table: its first chunk, counted through all rows
  uint32_t slice : 31;   // groups of eight of the whole parameter before these
  uint32_t aligned : 1;  // all arrays can be read in vectors
};

// The addresses of the step's scalars, which the ops of a program share.
struct UpdateScalars {
  const float *lr, *scale;
  const int64_t *step, *seed;  // seed: nullptr where nothing is rounded
  const int32_t* predicate;

  bool operator==(const UpdateScalars&) const = default;
  __device__ bool skipped() const { return predicate != nullptr && *predicate == 0; }
};

struct UpdateCuda : UpdateArrays, UpdateScalars {
  // `moments`: how many of the op's states come first and are floats of the parameter's shape.
  UpdateCuda(const KernelArgs& a, size_t op_states, size_t moments) {
    const UpdatePorts ports(a.outputs.size());
    param = a.out<void>(0);
    grad = a.in<void>(UpdatePorts::kGrad);
    for (size_t s : {0, 1}) states[s] = s < moments ? a.out<void>(s + 1) : nullptr;
    const size_t at = weight_output(op_states, a.outputs.size());
    weight = at > 0 ? a.out<void>(at) : nullptr;
    n = a.in(UpdatePorts::kParam).elements();
    lr = a.in<float>(ports.lr);
    step = a.in<int64_t>(ports.step);
    scale = a.in<float>(ports.scale);
    seed = a.in<int64_t>(ports.seed);
    predicate = a.predicate;
    name = seed == nullptr ? 0 : hash_name(a.attrs.s("key"));
    weight_decay = a.attrs.f("weight_decay");
    first = 0;
    slice = static_cast<uint32_t>(a.attrs.i("first", 0) / 8) & 0x7FFF'FFFF;
    uintptr_t bits = 0;
    const void* const arrays[] = {param, grad, states[0], states[1], weight};
    for (const void* array : arrays) bits |= reinterpret_cast<uintptr_t>(array);
    aligned = bits % 16 == 0;
  }
};

// What is the same for all elements of a parameter, in addition to its rule.
struct UpdateOwn {
  Key key;     // means nothing where nothing is rounded
  float keep;  // what weight decay leaves of the parameter
};

// The values of the scalars.
struct UpdateNow {
  double rate;
  uint64_t step, seed;
  float scale;  // on the gradient

  __device__ void read(const UpdateScalars& s) {
    rate = static_cast<double>(*s.lr);
    step = static_cast<uint64_t>(*s.step);
    seed = s.seed == nullptr ? 0 : static_cast<uint64_t>(*s.seed);
    scale = *s.scale;
  }
  template <typename Rule>
  __device__ Rule started(Rule rule) const {
    rule.start(rate, static_cast<int64_t>(step));
    return rule;
  }
  __device__ UpdateOwn own(const UpdateArrays& a) const {
    return {random_key(seed, step, a.name), kept(rate, a.weight_decay)};
  }
};

// All numbers of one op.
template <typename Rule>
struct UpdateNumbers : UpdateOwn {
  Rule rule;
  float scale;

  __device__ void make(const UpdateCuda& u, const Rule& given) {
    UpdateNow now;
    now.read(u);
    static_cast<UpdateOwn&>(*this) = now.own(u);
    rule = now.started(given);
    scale = now.scale;
  }
};

// --- many parameters in one launch ---------------------------------------------------------------

// The parameters of a launch, each cut into chunks of one group of eight per thread of a block.
struct UpdateTable : UpdateScalars {
  static constexpr uint32_t kMost = 54;
  UpdateArrays rows[kMost];
  uint32_t count, chunks;

  explicit UpdateTable(const UpdateScalars& s) : UpdateScalars(s), rows{}, count(0), chunks(0) {}
  bool full() const { return count == kMost; }
  void add(const UpdateArrays& a) {
    if (a.n == 0) return;
    rows[count] = a;
    rows[count++].first = chunks;
    chunks += static_cast<uint32_t>(ceil_div(a.n, 8 * kUpdateThreads));
  }

  // The row of `chunk`, which is no earlier one than `row`.
  __device__ uint32_t row_of(uint32_t chunk, uint32_t row) const {
    while (row + 1 < count && chunk >= rows[row + 1].first) ++row;
    return row;
  }
  // This thread's group of the chunk. Counted in 32 bits: no device holds 2^35 elements of a state.
  __device__ uint32_t group_of(uint32_t chunk, uint32_t row) const {
    return (chunk - rows[row].first) * kUpdateThreads + threadIdx.x;
  }
};

// --- the kernel ----------------------------------------------------------------------------------

struct NoWeight {};

// Eight elements of every array. M, V: of the states that Rule has. W: of a master's weight.
template <typename Rule, typename P, typename G, typename M, typename V, typename W>
struct UpdateGroup {
  static constexpr bool kM = Rule::kStates > 0, kV = Rule::kStates > 1;
  Eight<P> param;
  Eight<G> grad;
  Eight<M> m;
  Eight<V> v;

  __device__ void load(const UpdateArrays& u, uint32_t group) {
    const Eighth where(group, u.n, u.aligned);
    where.packed ? load(u, where) : load(u, where);  // one branch for all arrays
  }
  __device__ void load(const UpdateArrays& u, const Eighth& where) {
    param.load(static_cast<const P*>(u.param), where);
    grad.load(static_cast<const G*>(u.grad), where);
    if constexpr (kM) m.load(static_cast<const M*>(u.states[0]), where);
    if constexpr (kV) v.load(static_cast<const V*>(u.states[1]), where);
  }

  __device__ void step(const UpdateArrays& u, const Rule& rule, float scale, const UpdateOwn& own,
                       uint32_t group) {
    const Eighth where(group, u.n, u.aligned);
    if (where.count == 0) return;
    float next[8], next_m[8], next_v[8];
    auto cursor = rule.cursor(where.first);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float state[2] = {};
      if constexpr (kM) state[0] = m[i];
      if constexpr (kV) state[1] = v[i];
      next[i] = moved(own.keep, param[i], rule(cursor, grad[i] * scale, state[0], state[1]));
      next_m[i] = state[0];
      next_v[i] = state[1];
    }
    rounded<P>(next, own.key, 0, u.slice + group).store(static_cast<P*>(u.param), where);
    if constexpr (!std::is_same_v<W, NoWeight>)
      nearest<W>(next).store(static_cast<W*>(u.weight), where);
    if constexpr (kM)
      rounded<M>(next_m, own.key, 1, u.slice + group).store(static_cast<M*>(u.states[0]), where);
    if constexpr (kV)
      rounded<V>(next_v, own.key, 2, u.slice + group).store(static_cast<V*>(u.states[1]), where);
  }
};

// Blocks that a multiprocessor holds: as many as their registers allow without spilling.
template <typename Rule>
constexpr int kUpdateBlocks = Rule::kStates > 1 ? 3 : 4;

// The first loads are under way while one thread makes the numbers, and the next chunk's while a
// group takes its step.
template <typename Rule, typename P, typename G, typename M, typename V, typename W>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks<Rule>)
    update(const __grid_constant__ UpdateTable t, const __grid_constant__ Rule given) {
  after_previous();
  uint32_t chunk = blockIdx.x, row = t.row_of(chunk, 0);
  UpdateGroup<Rule, P, G, M, V, W> next;
  next.load(t.rows[row], t.group_of(chunk, row));
  if (t.skipped()) return;
  __shared__ UpdateNow now;
  __shared__ Rule started;
  if (threadIdx.x == 0) {
    now.read(t);
    started = now.started(given);
  }
  __syncthreads();
  const Rule rule = started;
  const float scale = now.scale;
  UpdateOwn own = now.own(t.rows[row]);
  for (;;) {
    UpdateGroup<Rule, P, G, M, V, W> x = next;
    const uint32_t at = row, then = chunk + gridDim.x;
    if (then < t.chunks) {
      row = t.row_of(then, row);
      next.load(t.rows[row], t.group_of(then, row));
    }
    x.step(t.rows[at], rule, scale, own, t.group_of(chunk, at));
    if (then >= t.chunks) return;
    if (row != at) own = now.own(t.rows[row]);
    chunk = then;
  }
}

// fn(P{}, G{}) with the types of the parameter and its gradient, of which `infer_update` takes
// these.
template <typename Fn>
void visit_param_and_grad(const KernelArgs& a, const Fn& fn) {
  visit_device_float(a.in(UpdatePorts::kParam).type->dtype, [&](auto p) {
    visit_device_float(a.in(UpdatePorts::kGrad).type->dtype, [&](auto g) {
      using P = decltype(p);
      using G = decltype(g);
      if constexpr (std::is_same_v<P, G> || std::is_same_v<P, float> || std::is_same_v<G, float>)
        fn(p, g);
      else
        throw internal_error("an update of two 16-bit types");
    });
  });
}

// fn(P{}, G{}, W{}) with the type of the weight too, which a gradient of 2 bytes has as well.
template <typename Fn>
void visit_arrays(const KernelArgs& a, bool writes_weight, const Fn& fn) {
  visit_param_and_grad(a, [&](auto p, auto g) {
    if (!writes_weight) return fn(p, g, NoWeight{});
    visit_device_float(a.outputs.back().type->dtype, [&](auto w) {
      using P = decltype(p);
      using G = decltype(g);
      using W = decltype(w);
      if constexpr (std::is_same_v<P, float> && !std::is_same_v<W, float> &&
                    (std::is_same_v<G, float> || std::is_same_v<G, W>))
        fn(p, g, w);
      else
        throw internal_error("a weight of a type that its master's update does not take");
    });
  });
}

// fn(M{}, V{}) with the one type of all states; float for those that the rule does not have.
template <typename Rule, typename Fn>
void visit_states(const KernelArgs& a, const Fn& fn) {
  if constexpr (Rule::kStates > 0) {
    using V = std::conditional_t<(Rule::kStates > 1), __nv_bfloat16, float>;
    if (a.out(1).type->dtype == Dtype::bf16) return fn(__nv_bfloat16{}, V{});
  }
  fn(float{}, float{});
}

// `a`: one of the table's ops.
template <typename Rule>
void launch_table(const KernelArgs& a, const UpdateTable& table, const Rule& rule) {
  static_assert(sizeof(UpdateTable) + sizeof(Rule) <= 4096);  // what every kernel may be given
  if (table.chunks == 0) return;
  visit_arrays(a, table.rows[0].weight != nullptr, [&](auto p, auto g, auto w) {
    visit_states<Rule>(a, [&](auto m, auto v) {
      launch_after_previous(
          update<Rule, decltype(p), decltype(g), decltype(m), decltype(v), decltype(w)>,
          blocks_for(table.chunks, 1, kUpdateBlocks<Rule>), kUpdateThreads, 0, stream_of(a), table,
          rule);
    });
  });
}

// `u`: of `a`.
template <typename Rule>
void launch_update(const KernelArgs& a, const UpdateCuda& u, const Rule& rule) {
  UpdateTable table(u);
  table.add(u);
  launch_table(a, table, rule);
}

// Can one launch update both? Where the same kernel code runs with the same numbers.
template <typename Rule>
bool go_together(const KernelArgs& a, const UpdateCuda& of_a, const KernelArgs& b,
                 const UpdateCuda& of_b) {
  bool same = static_cast<const UpdateScalars&>(of_a) == of_b && a.stream == b.stream &&
              Rule::of(a.attrs) == Rule::of(b.attrs);
  for (size_t port = 0; port < UpdatePorts(a.outputs.size()).lr; ++port)
    same = same && a.in(port).type->dtype == b.in(port).type->dtype;
  return same;
}

// In as few launches as there are different rules, types and full tables among neighbours: ops of
// one kind, whose states are the rule's.
template <typename Rule>
void launch_updates(std::span<const KernelArgs> all) {
  for (size_t first = 0, i = 0; first < all.size(); first = i) {
    const UpdateCuda u(all[first], Rule::kStates, Rule::kStates);
    UpdateTable table(u);
    table.add(u);
    for (i = first + 1; i < all.size() && !table.full(); ++i) {
      const UpdateCuda other(all[i], Rule::kStates, Rule::kStates);
      if (!go_together<Rule>(all[first], u, all[i], other)) break;
      table.add(other);
    }
    launch_table(all[first], table, Rule::of(all[first].attrs));
  }
}

}  // namespace snug::ops
