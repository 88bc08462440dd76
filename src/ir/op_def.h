// Everything known of an op kind, in one place. Passes, planner and runtime ask these facts and
// never an op's name.
//
// An OpDef is a table of plain functions; `ops/norm/rms_norm.cpp` is a complete example.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ir/attrs.h"
#include "ir/program.h"

namespace snug {

class GradContext;

enum class Backend : uint8_t { cpu, cuda };

struct Port {
  enum class Kind : uint8_t { plain, optional, variadic, aux };
  std::string_view name;
  Kind kind = Kind::plain;

  constexpr Port(const char* n, Kind k = Kind::plain)
      : name(n), kind(k) {}  // NOLINT: implicit, so that a list of names is a list of ports
  constexpr bool optional() const { return kind == Kind::optional; }
  constexpr bool variadic() const { return kind == Kind::variadic; }
  constexpr bool aux() const { return kind == Kind::aux; }
};
// An input that may be absent; the last input, which takes the rest; an output that is kept for
// backward, into which no gradient flows.
constexpr Port optional(const char* name) { return {name, Port::Kind::optional}; }
constexpr Port variadic(const char* name) { return {name, Port::Kind::variadic}; }
constexpr Port aux(const char* name) { return {name, Port::Kind::aux}; }

// --- infer and cost -----------------------------------------------------------------------------

// An op as its own functions see it: input types by port, attributes, and a way to refuse.
struct OpView {
  const OpDef& def;
  std::string_view name;
  int32_t layer = kNoLayer;
  std::span<const Type* const> inputs;  // nullptr: absent
  const Attrs& attrs;

  size_t size() const { return inputs.size(); }
  bool has(size_t port) const { return port < inputs.size() && inputs[port] != nullptr; }
  const Type& in(size_t port) const { return *inputs[port]; }
  const Shape& shape(size_t port) const { return inputs[port]->shape; }

  // "linear 'h.3.attn.qkv' (layer 3): x f32[8,768] and weight f32[512,512] do not multiply"
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw refusal(fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) refuse(format, std::forward<Args>(args)...);
  }

 private:
  Error refusal(const std::string& why) const;
};

struct Cost {
  int64_t flops = 0;
  // 0 in all three: the default, which reads every input and writes every output once.
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t exps = 0;      // exponentials, where they hold matmuls up: attention
  bool variant = false;  // another kernel serves it than others of its kind: grouped attention
  // Scratch bytes: they may depend on shapes, attributes and backend, never on the machine.
  int64_t workspace = 0;
};

// --- kernels ------------------------------------------------------------------------------------

// Whose kernels run an op on a GPU, where there are several: the slower the later.
enum class Server : uint8_t { only, cudnn, tensor_cores, plain_tiles };
struct Served {
  Server by = Server::only;
  std::string_view why = "";      // it is not cuDNN: "dropout"
  std::string_view instead = "";  // what would put it on tensor cores: "--tf32"
  friend bool operator==(const Served&, const Served&) = default;
};

struct Tensor {
  void* data = nullptr;  // nullptr: absent
  const Type* type = nullptr;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  const Shape& shape() const { return type->shape; }
  int64_t elements() const { return type->shape.elements(); }
};

// How matmuls and sums may be computed, where a backend has a choice.
struct Math {
  bool deterministic = false;   // the same bits from every run; algorithms are chosen by rule
  bool tf32 = false;            // fp32 matmuls, attention's too, may round their factors to tf32
  bool quick_autotune = false;  // algorithms are timed briefly, and not cached
  friend bool operator==(const Math&, const Math&) = default;
};

// What a kernel gets: pointers, types, scratch and attributes. It allocates nothing, keeps nothing,
// and writes every byte of its outputs and nothing else. An output may be the same pointer as an
// input only where `alias` grants it.
struct KernelArgs {
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<std::byte> workspace;
  const Attrs& attrs;
  void* stream = nullptr;  // the lane's stream on backends that have them: a kernel only enqueues
  // On such backends also the op's predicate, on the device: a kernel in a row that `predicated`
  // marks does nothing where it holds 0.
  const int32_t* predicate = nullptr;
  Math math = {};

  bool has(size_t port) const { return port < inputs.size() && inputs[port].data != nullptr; }
  const Tensor& in(size_t port) const { return inputs[port]; }
  const Tensor& out(size_t port) const { return outputs[port]; }
  template <typename T>
  const T* in(size_t port) const {
    return has(port) ? inputs[port].as<const T>() : nullptr;
  }
  template <typename T>
  T* out(size_t port) const {
    return outputs[port].as<T>();
  }
};
using KernelFn = void (*)(const KernelArgs&);
using KernelsFn = void (*)(std::span<const KernelArgs>);

// One row of the kernel table. `dtype` is that of the op's first input that is present (of the
// first output when it has none).
struct Kernel {
  Backend backend;
  Dtype dtype;
  KernelFn run;
  // Called once per op before any value has its content, with the arguments that `run` will get:
  // chooses and times algorithms. It may write the outputs and the scratch.
  KernelFn prepare = nullptr;
  // Reads KernelArgs::predicate itself. Those of backends with streams must, where an op has one.
  bool predicated = false;
  // As `run` of each, with the same bits, for calls of which none writes what another touches: many
  // small ops become one launch.
  KernelsFn run_many = nullptr;
};

// --- the plain meaning of an op, in double ------------------------------------------------------

struct RefTensor {
  Type type;
  std::vector<double> v;  // integers too
  const Shape& shape() const { return type.shape; }
};

struct RefArgs {
  std::span<const RefTensor* const> inputs;  // nullptr: absent
  std::span<RefTensor* const> outputs;       // sized, zero-filled
  const Attrs& attrs;

  bool has(size_t port) const { return port < inputs.size() && inputs[port] != nullptr; }
  const RefTensor& in(size_t port) const { return *inputs[port]; }
  RefTensor& out(size_t port) const { return *outputs[port]; }
};
using ReferenceFn = void (*)(const RefArgs&);

// --- samples: what every check of the op runs on ------------------------------------------------

struct Fill {
  enum class Kind : uint8_t { normal, integers, constant, absent } kind = Kind::normal;
  double a = 1;  // normal: standard deviation; integers: below a; constant: a
  // When set, computes the input from the earlier ones instead (statistics that must agree with the
  // data).
  std::function<void(RefTensor& self, std::span<const RefTensor> earlier)> compute = nullptr;

  static Fill normal(double std = 1) { return {Kind::normal, std}; }
  static Fill integers(double below) { return {Kind::integers, below}; }
  static Fill constant(double value) { return {Kind::constant, value}; }
  static Fill absent() { return {Kind::absent, 0}; }
};

struct SampleInput {
  Type type;
  Fill fill = Fill::normal();
};

// One call of the op. Its gradient is checked through the ops that `grad` emits, so backward ops
// need no samples of their own as long as some forward sample reaches them.
struct Sample {
  std::string name;
  std::vector<SampleInput> inputs;
  Attrs attrs = {};
};

// --- facts that passes ask ----------------------------------------------------------------------

// An output that takes an input's bytes. must: it is the next version of a persistent value (the
// optimizer's). May: the kernel works in place, and the in-place pass grants it where the input has
// no later reader.
struct Alias {
  int output = 0;
  int input = 0;
  bool must = false;
};

// The output adds to an optional input: out = accumulator + result. Gradients are summed this way,
// without an add op. The kernel accepts the accumulator in place. An op with an accumulator is
// never cloned by recompute.
struct Accumulate {
  int output = 0;
  int input = 0;
};

// An axis along which the op may run in tiles or be sharded: per port the dimension that is cut, or
// one of these. Ports may count the axis in finer units, and are cut in proportion: x [B,T,C] at b,
// its row statistics [B*T] at b*T.
struct Split {
  static constexpr int kWhole = -1;  // the port is not cut
  // An output that holds a partial sum: tiles add up, shards need an all-reduce.
  static constexpr int kPartial = -2;
  std::string_view axis;
  std::vector<int> inputs;
  std::vector<int> outputs;
  int min_rank = 1;  // of the first input: with fewer dimensions the op has no such axis
};

// Recompute from output: `def` takes the op's output `from`, then the op's inputs `inputs` and its
// attributes, and computes the outputs `outputs`, with the same bits. A residual norm keeps its sum
// this way instead of both addends.
struct RecomputeFromOutput {
  int from = 0;
  const OpDef* def = nullptr;
  std::vector<int> inputs;
  std::vector<int> outputs;
};

// Fused recompute: where backward reads this op's output `output`, the backward op `grad` can be
// replaced by `with`, which takes the same inputs and after them this op's inputs `inputs`,
// computes the same outputs, and at port `recomputed` this op's `output`, with the same bits.
struct FusedRecompute {
  const OpDef* grad = nullptr;
  const OpDef* with = nullptr;
  int output = 0;
  int recomputed = 0;
  std::vector<int> inputs = {};
};

// Whether an op computes the features of a token each by itself, so that ranks can share them. Its
// first input and output are then cut along their last axis: anywhere, each of two halves, or queries,
// keys and values by heads (attributes heads and kv_heads).
enum class Features : uint8_t { together, alone, in_halves, in_heads };

enum class Comm : uint8_t { none, collective, send, recv };
enum class CollectiveKind : uint8_t {
  none,
  gather,    // its input may alias its output: at this rank's place
  exchange,  // block r to rank r
  reduce_scatter,
  all_reduce,
  broadcast
};

struct OpDef {
  std::string_view kind;
  std::vector<Port> inputs;
  std::vector<Port> outputs;

  // Input types -> output types: the only shape rule anywhere.
  std::vector<Type> (*infer)(const OpView&) = nullptr;
  // Emits ordinary backward ops; what they use is what is kept. nullptr: nothing flows back through
  // it.
  void (*grad)(GradContext&) = nullptr;
  Cost (*cost)(const OpView&, std::span<const Type> outputs, Backend) = nullptr;
  // On a GPU, by rule. nullptr: one set of kernels serves all.
  Served (*served)(const OpView&, const Math&) = nullptr;

  std::vector<Alias> alias = {};
  std::vector<Accumulate> accumulate = {};
  std::vector<Split> splits = {};
  bool random = false;  // draws from (seed, step, sample, element, attrs "key"): clones copy it
  std::optional<RecomputeFromOutput> recompute_from_output = {};
  std::optional<FusedRecompute> fused_recompute = {};
  // Inputs that must come back from lossy storage unchanged: what a norm divides by, softmax's
  // statistics. `compress` leaves the values that such a port reads alone.
  std::vector<int> exact = {};
  bool selective = false;  // makes far more bytes than it reads: the first to be recomputed
  bool matmul = false;     // multiplies by a weight, or makes the gradient of one
  Features features = Features::together;
  bool crosses_spaces = false;  // copies between device, host and disk
  Comm comm = Comm::none;       // attrs: axis, seq, and for send/recv peer
  CollectiveKind collective = CollectiveKind::none;

  std::vector<Kernel> kernels = {};
  ReferenceFn reference = nullptr;
  std::vector<Sample> (*samples)() = nullptr;

  // The runtime does it, and no kernel.
  bool moves_bytes() const { return crosses_spaces || comm != Comm::none; }
  int input_port(std::string_view port) const;  // throws an internal error when there is none
  const Port& port_of_input(size_t i) const { return inputs[std::min(i, inputs.size() - 1)]; }
  bool must_alias(int output) const;
  int accumulator_of(int output) const;                           // the input port, or -1
  const Kernel* find_kernel(Backend backend, Dtype dtype) const;  // nullptr when there is none
  KernelFn kernel(Backend backend, Dtype dtype) const;            // its `run`, or nullptr
};

// The explicit list of ops, looked up by kind (the parser does).
using Registry = std::span<const OpDef* const>;
const OpDef* find_op(Registry registry, std::string_view kind);

// Types of an op's inputs by port, ready for OpView.
std::vector<const Type*> input_types(const Module& module, const Op& op);
std::vector<Type> output_types(const Module& module, const Op& op);
Cost cost_of(const Module& module, const Op& op, Backend backend);
Served served_on_gpu(const Module& module, const Op& op, const Math& math);
Dtype kernel_dtype(const Module& module, const Op& op);

// Where an op runs: in the space of what it writes, or reads where it writes nothing.
Space space_of(const Module& module, const Op& op);
// What an op carries from one space to another; nothing for ops inside one space.
struct Move {
  Space from = Space::host, to = Space::device;
  int64_t bytes = 0;
};
std::optional<Move> move_of(const Module& module, const Op& op);
// Whose kernels run in a space, where the device is of `backend`.
constexpr Backend backend_in(Space space, Backend backend) {
  return space == Space::device ? backend : Backend::cpu;
}

}  // namespace snug
