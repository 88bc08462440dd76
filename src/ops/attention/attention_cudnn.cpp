#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "ops/attention/attention_cudnn.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cmath>
#include <compare>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // declared by the headers, for the program to define
}

namespace snug::ops {
namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Attributes>;

// --- the library ---------------------------------------------------------------------------------

bool opened() {
  static const bool found = [] {
    // The frontend opens a CUDA runtime beside ours; where several lie about, the one we know.
    const std::string runtime = fmt::format("libcudart.so.{}", CUDART_VERSION / 1000);
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), /*overwrite=*/0);
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    return fe::cudnn_dlhandle != nullptr;
  }();
  return found;
}

// What cuDNN says may run over pages; its first line names the cause.
void check(fe::error_t status, const char* doing) {
  if (status.is_bad()) {
    const std::string all = status.get_message();
    throw device_error("cuDNN {} failed while {} attention: {}", cudnn_version(), doing,
                       all.substr(0, all.find('\n')))
        .hint(
            "CUDNN_LOGLEVEL_DBG=2 and CUDNN_LOGDEST_DBG=stderr in the environment show all of it");
  }
}
void check(cudnnStatus_t status, const char* doing) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw device_error("cuDNN {} failed while {}: {}", cudnn_version(), doing,
                       fe::detail::get_error_string(status));
  }
}

// One handle for the process: it lives as long as the CUDA context, which it must not outlive.
cudnnHandle_t handle() {
  static const cudnnHandle_t made = [] {
    cudnnHandle_t h = nullptr;
    check(fe::detail::create_handle(&h), "starting");
    return h;
  }();
  return made;
}

// --- plans ---------------------------------------------------------------------------------------

struct Problem {
  int64_t B, T, H, K, D;
  bool causal, deterministic, backward;
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
          .dtype = a.in(0).type->dtype,
          .workspace = static_cast<int64_t>(a.workspace.size())};
}

enum Uid : int64_t { kQ = 1, kK, kV, kY, kLse, kDy, kDq, kDk, kDv };
using Pointers = std::unordered_map<int64_t, void*>;

struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;  // none: our own kernels serve
  int64_t samples = 0;                      // of the batch at a time
};

// Shapes and strides of what lies in packed rows of `width` elements: [B, heads, T, D].
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
  sdpa.set_name(name).set_attn_scale(1 / std::sqrt(static_cast<float>(p.D)));
  if (p.causal) {
    sdpa.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    sdpa.set_diagonal_band_right_bound(0);
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

// Takes the first engine, best first, whose workspace is under the cap. Returns 0, or the bytes of
// the least greedy one.
int64_t choose_engine(fe::graph::Graph& graph, const Problem& p) {
  check(graph.validate(), "checking");
  check(graph.build_operation_graph(handle()), "describing");
  check(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), "planning");
  int64_t smallest = INT64_MAX;
  fe::error_t refusal;
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    if (const fe::error_t status = graph.build_plan_at_index(i); status.is_bad()) {
      refusal = status;
      continue;
    }
    int64_t bytes = 0;
    check(graph.get_workspace_size_plan_at_index(i, bytes), "sizing");
    if (bytes <= p.workspace) return 0;  // the plan built last is the one that runs
    smallest = std::min(smallest, bytes);
  }
  if (smallest == INT64_MAX) check(refusal, "building");
  return smallest;
}

// The deterministic backward keeps dP, [B,H,T,T], and, where heads are grouped, dk and dv of every
// q head, in halves: as many samples at a time as the workspace affords.
int64_t samples_to_try(const Problem& p) {
  if (!p.deterministic) return p.B;
  const int64_t dprobs = p.H * round_up(p.T, 64) * round_up(p.T, 128) * 2;
  const int64_t dkv = p.H == p.K ? 0 : p.H * round_up(p.T, 128) * p.D * 4;
  return std::min(p.B, p.workspace / (dprobs + dkv));
}

// Engines that ask for more than the cap for the whole batch get it in equal parts.
Plan make_plan(const Problem& whole) {
  Problem p = whole;
  int64_t asked = 0;
  for (p.B = samples_to_try(whole); p.B > 0; --p.B) {
    if (whole.B % p.B != 0) continue;
    auto graph = graph_of(p);
    asked = choose_engine(*graph, p);
    if (asked == 0) return {std::move(graph), p.B};
  }
  if (whole.deterministic) return {};  // our own kernels are, in any workspace
  throw device_error(
      "cuDNN {} asks for {} of workspace for attention over {} tokens, {} heads on {} "
      "of {} elements; the plan grants {}",
      cudnn_version(), format_bytes(asked), whole.T, whole.H, whole.K, whole.D,
      format_bytes(whole.workspace))
      .hint("another version of cuDNN may ask for less");
}

// Plans live to the end of the process: CUDA graphs keep their kernels.
const Plan& plan_of(const Problem& problem) {
  static std::mutex& mutex = *new std::mutex;
  static auto& plans = *new std::map<Problem, Plan>;
  const std::lock_guard lock(mutex);
  auto found = plans.find(problem);
  if (found == plans.end()) found = plans.emplace(problem, make_plan(problem)).first;
  return found->second;
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

// What the frontend throws becomes ours.
template <typename Fn>
auto translated(Fn&& fn) {
  try {
    return fn();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw device_error("cuDNN failed: {}", e.what());
  }
}

bool prepare(const KernelArgs& a, bool backward) {
  if (!opened()) return false;
  return translated([&] { return plan_of(problem_of(a, backward)).graph != nullptr; });
}

bool run(const KernelArgs& a, bool backward) {
  if (!opened()) return false;
  return translated([&] {
    const Problem p = problem_of(a, backward);
    const Plan& plan = plan_of(p);
    if (plan.graph == nullptr) return false;
    check(fe::detail::set_stream(handle(), static_cast<cudaStream_t>(a.stream)),
          "choosing a stream");
    for (int64_t b = 0; b < p.B; b += plan.samples) {
      Pointers pointers = pointers_of(a, p, b);
      check(plan.graph->execute(handle(), pointers, a.workspace.data()), "enqueuing");
    }
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
