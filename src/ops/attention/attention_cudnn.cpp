#include "ops/attention/attention_cudnn.h"

#include <chrono>
#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/median.h"
#include "base/notes.h"
#include "hal/cuda/event.h"
#include "ops/attention/cudnn_library.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // declared by the headers, for the program to define
}

namespace snug::ops {
namespace {

namespace fe = cudnn_frontend;
using cudnn::check, cudnn::handle, cudnn::opened, cudnn::translated;
using Attributes = fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Attributes>;

// --- plans ---------------------------------------------------------------------------------------

// Pairs of queries and keys, times D, from which on ways to run are timed: some 20 us.
constexpr int64_t kWorthTiming = int64_t{1} << 31;

struct Problem {
  int64_t B, T, H, K, D;
  bool causal, deterministic, backward;
  int64_t window;  // 0: none
  float scale;     // of the scores
  bool by_rule;    // else the fastest way counts
  Dtype dtype;
  int64_t workspace;  // bytes a plan may ask for

  auto operator<=>(const Problem&) const = default;
};

Problem problem_of(const KernelArgs& a, bool backward) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  return {.B = p.B,
          .T = p.T,
          .H = p.H,
          .K = p.K,
          .D = p.D,
          .causal = a.attrs.b("causal"),
          .deterministic = backward && a.math.deterministic,  // forward always is
          .backward = backward,
          .window = seen_keys(a.attrs).window,
          .scale = score_scale(p, a.attrs),
          .by_rule = a.math.deterministic || p.B * p.H * p.T * p.T * p.D < kWorthTiming,
          .dtype = a.in(0).type->dtype,
          .workspace = static_cast<int64_t>(a.workspace.size())};
}

enum Uid : int64_t { kQ = 1, kK, kV, kY, kLse, kDy, kDq, kDk, kDv };
using Pointers = std::unordered_map<int64_t, void*>;

struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;  // none: our own kernels serve
  int64_t samples = 0;                      // of the batch at a time
  int64_t engine = 0;                       // its place among those that the heuristics offer
};

// Shapes and strides of heads in packed rows of `width` elements: [B, heads, T, D].
void describe(Attributes& tensor, const Problem& p, Uid uid, int64_t heads, int64_t width) {
  tensor.set_uid(uid).set_dim({p.B, heads, p.T, p.D}).set_stride({p.T * width, p.D, width, 1});
}

void describe_lse(Attributes& tensor, const Problem& p) {
  tensor.set_uid(kLse)
      .set_dim({p.B, p.H, p.T, 1})
      .set_stride({p.H * p.T, p.T, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

template <typename Sdpa>
Sdpa sdpa_of(const Problem& p, const char* name) {
  Sdpa sdpa;
  sdpa.set_name(name).set_attn_scale(p.scale);
  if (p.causal) {
    sdpa.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    sdpa.set_diagonal_band_right_bound(0);
    if (p.window > 0) sdpa.set_diagonal_band_left_bound(p.window);
  }
  return sdpa;
}

std::shared_ptr<fe::graph::Graph> graph_of(const Problem& p) {
  const int64_t packed = (p.H + 2 * p.K) * p.D;
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(p.dtype == Dtype::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto input = [&](Uid uid, int64_t heads, int64_t width) {
    Attributes tensor;
    describe(tensor, p, uid, heads, width);
    return graph->tensor(tensor);
  };
  const auto output = [&](const TensorPtr& tensor, Uid uid, int64_t heads, int64_t width) {
    tensor->set_output(true);
    describe(*tensor, p, uid, heads, width);
  };
  const TensorPtr q = input(kQ, p.H, packed), k = input(kK, p.K, packed),
                  v = input(kV, p.K, packed);
  if (!p.backward) {
    auto sdpa = sdpa_of<fe::graph::SDPA_attributes>(p, "attention");
    const auto [y, lse] = graph->sdpa(q, k, v, sdpa.set_generate_stats(true));
    output(y, kY, p.H, p.H * p.D);
    lse->set_output(true);
    describe_lse(*lse, p);
    return graph;
  }
  Attributes stats;
  describe_lse(stats, p);
  auto sdpa = sdpa_of<fe::graph::SDPA_backward_attributes>(p, "attention_grad");
  const TensorPtr y = input(kY, p.H, p.H * p.D), dy = input(kDy, p.H, p.H * p.D);
  const auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, y, dy, graph->tensor(stats),
                                                 sdpa.set_deterministic_algorithm(p.deterministic));
  output(dq, kDq, p.H, packed);
  output(dk, kDk, p.K, packed);
  output(dv, kDv, p.K, packed);
  return graph;
}

// With the engines that the heuristics offer, best first.
std::shared_ptr<fe::graph::Graph> planned_graph(const Problem& p) {
  auto graph = graph_of(p);
  check(graph->validate(), "checking");
  check(graph->build_operation_graph(handle()), "describing");
  check(graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), "planning");
  return graph;
}

struct Choice {
  int64_t engine = -1;        // none was built that the cap allows
  int64_t bytes = INT64_MAX;  // that the least greedy asks for
  fe::error_t refusal;        // of the last that cannot be built
};

// Builds the first engine from `first` on whose workspace is under the cap.
Choice build_engine(fe::graph::Graph& graph, int64_t cap, int64_t first = 0) {
  Choice choice;
  for (int64_t i = first; i < graph.get_execution_plan_count(); ++i) {
    if (const fe::error_t status = graph.build_plan_at_index(i); status.is_bad()) {
      choice.refusal = status;
      continue;
    }
    int64_t bytes = 0;
    check(graph.get_workspace_size_plan_at_index(i, bytes), "sizing");
    choice.bytes = std::min(choice.bytes, bytes);
    if (bytes <= cap) {
      choice.engine = i;
      break;
    }
  }
  return choice;
}

// The deterministic backward keeps dP, [B,H,T,T], and, where heads are grouped, dk and dv of every
// q head, in halves: as many samples at a time as the workspace affords.
int64_t samples_to_try(const Problem& p) {
  if (!p.deterministic) return p.B;
  const int64_t dprobs = p.H * round_up(p.T, 64) * round_up(p.T, 128) * 2;
  const int64_t dkv = p.H == p.K ? 0 : p.H * round_up(p.T, 128) * p.D * 4;
  return std::min(p.B, p.workspace / (dprobs + dkv));
}

// A GPU or a library that has no such attention: our own kernels take it.
Plan refused(const std::string& why) {
  note("{}; Snug's own kernels make attention instead, slowly", why);
  return {};
}

// By rule: the first engine. One that asks for more than the cap for the whole batch gets it in
// equal parts.
Plan make_plan(const Problem& whole) {
  Problem p = whole;
  Choice choice;
  for (p.B = samples_to_try(whole); p.B > 0; --p.B) {
    if (whole.B % p.B != 0) continue;
    try {
      auto graph = planned_graph(p);
      choice = build_engine(*graph, p.workspace);
      if (choice.engine >= 0) return {std::move(graph), p.B, choice.engine};
      if (choice.bytes == INT64_MAX) check(choice.refusal, "building");
    } catch (const std::exception& e) {
      return refused(e.what());
    }
  }
  if (whole.deterministic) return {};  // our own kernels are, in any workspace
  throw device_error(
      "cuDNN {} asks for {} of workspace for attention over {} tokens, {} heads on {} "
      "of {} elements; the plan grants {}",
      cudnn_version(), format_bytes(choice.bytes), whole.T, whole.H, whole.K, whole.D,
      format_bytes(whole.workspace))
      .hint("another version of cuDNN may ask for less");
}

// --- running one ---------------------------------------------------------------------------------

// Where the tensors of sample b begin, in bytes.
Pointers pointers_of(const KernelArgs& a, const Problem& p, int64_t b) {
  const PackedHeads heads{p.B, p.T, p.H, p.K, p.D};
  const auto at = [](const Tensor& tensor, int64_t element) {
    return static_cast<void*>(tensor.as<std::byte>() + element * size_of(tensor.type->dtype));
  };
  const int64_t y = heads.y(b, 0, 0), lse = b * p.H * p.T;
  const int64_t q = heads.q(b, 0, 0), k = heads.k(b, 0, 0), v = heads.v(b, 0, 0);
  const Tensor &qkv = a.in(0), &out = a.out(0);
  Pointers pointers{{kQ, at(qkv, q)}, {kK, at(qkv, k)}, {kV, at(qkv, v)}};
  if (!p.backward) {
    pointers.insert({{kY, at(out, y)}, {kLse, at(a.out(1), lse)}});
    return pointers;
  }
  pointers.insert({{kY, at(a.in(1), y)}, {kLse, at(a.in(2), lse)}, {kDy, at(a.in(3), y)}});
  pointers.insert({{kDq, at(out, q)}, {kDk, at(out, k)}, {kDv, at(out, v)}});
  return pointers;
}

void enqueue(const KernelArgs& a, const Problem& p, const Plan& plan) {
  check(fe::detail::set_stream(handle(), static_cast<cudaStream_t>(a.stream)), "choosing a stream");
  for (int64_t b = 0; b < p.B; b += plan.samples) {
    Pointers pointers = pointers_of(a, p, b);
    check(plan.graph->execute_plan_at_index(handle(), pointers, a.workspace.data(), plan.engine),
          "enqueuing");
  }
}

// --- the fastest way -----------------------------------------------------------------------------

constexpr double kChoosingSeconds = 4;  // then no other variant is built; each takes about 0.5
constexpr double kWorthwhile = 0.98;    // of the best time: a smaller gain may be noise

// An alternative to the rule's choice: other parts of the batch, or a later engine.
struct Variant {
  Problem part;
  int64_t first_engine = 0;
};

// Backward: scratch of fewer samples may stay in the cache between its kernels, and the
// deterministic engine keeps dP instead of summing dq in f32. (cuDNN 9.19 has one configuration of
// each engine made for Hopper, and offers it first; those it offers next are Ampere's.)
std::vector<Variant> variants(const Problem& whole, const Plan& rule) {
  if (!whole.backward) return {{whole, rule.engine + 1}};
  std::vector<Variant> found;
  for (const int64_t parts : {2, 4, 8}) {
    Problem part = whole;
    part.B = whole.B / parts;
    if (part.B > 0 && part.B < rule.samples && whole.B % parts == 0) found.push_back({part});
  }
  Problem dprobs = whole;
  dprobs.deterministic = true;
  dprobs.B = samples_to_try(dprobs);
  while (dprobs.B > 0 && whole.B % dprobs.B != 0) --dprobs.B;
  if (dprobs.B > 0) found.push_back({dprobs});
  return found;
}

// Milliseconds of one run.
double time_plan(const KernelArgs& a, const Problem& p, const Plan& plan) {
  constexpr int kWarmUp = 2, kTimed = 5;
  for (int i = 0; i < kWarmUp; ++i) enqueue(a, p, plan);
  return median(cuda::times_ms(static_cast<cudaStream_t>(a.stream), kTimed,
                               [&](size_t) { enqueue(a, p, plan); }));
}

Plan fastest_plan(const KernelArgs& a, const Problem& p) {
  const auto begin = std::chrono::steady_clock::now();
  Plan best = make_plan(p);
  if (best.graph == nullptr) return best;
  double best_ms = time_plan(a, p, best);
  for (const Variant& variant : variants(p, best)) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (spent.count() > kChoosingSeconds) break;
    try {
      Plan plan{planned_graph(variant.part), variant.part.B};
      plan.engine = build_engine(*plan.graph, p.workspace, variant.first_engine).engine;
      if (plan.engine < 0) continue;
      const double ms = time_plan(a, p, plan);
      if (ms >= kWorthwhile * best_ms) continue;
      best_ms = ms;
      best = std::move(plan);
    } catch (const std::exception&) {
      continue;  // what cuDNN refuses is not taken
    }
  }
  return best;
}

// --- what was chosen -----------------------------------------------------------------------------

// Plans live to the end of the process: CUDA graphs keep their kernels.
struct Plans {
  std::mutex mutex;
  std::map<Problem, Plan> of;
};
Plans& plans() {
  static Plans& made = *new Plans;
  return made;
}

// What makes a plan where there is none yet: only `prepare` may time.
template <typename Make>
const Plan& plan_of(const Problem& problem, Make&& make) {
  const std::lock_guard lock(plans().mutex);
  auto found = plans().of.find(problem);
  if (found == plans().of.end()) found = plans().of.emplace(problem, make()).first;
  return found->second;
}

bool prepare(const KernelArgs& a, bool backward) {
  if (!opened()) return false;
  return translated([&] {
    const Problem p = problem_of(a, backward);
    const auto make = [&] { return p.by_rule ? make_plan(p) : fastest_plan(a, p); };
    return plan_of(p, make).graph != nullptr;
  });
}

bool run(const KernelArgs& a, bool backward) {
  if (!opened()) return false;
  return translated([&] {
    const Problem p = problem_of(a, backward);
    const Plan& plan = plan_of(p, [&] { return make_plan(p); });
    if (plan.graph == nullptr) return false;
    enqueue(a, p, plan);
    return true;
  });
}

}  // namespace

bool prepare_cudnn_attention(const KernelArgs& a) { return prepare(a, false); }
bool cudnn_attention(const KernelArgs& a) { return run(a, false); }
bool prepare_cudnn_attention_grad(const KernelArgs& a) { return prepare(a, true); }
bool cudnn_attention_grad(const KernelArgs& a) { return run(a, true); }

std::string cudnn_version() {
  if (!opened()) return {};
  return translated([] { return fe::detail::get_backend_version_string(); });
}

}  // namespace snug::ops
