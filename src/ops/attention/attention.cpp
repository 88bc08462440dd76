#include "ops/attention/attention.h"

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/attention/attention_cpu.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_cudnn.h"
#include "ops/attention/attention_reference.h"
#include "ops/attention/attention_server.h"
#include "ops/attention/packed_heads.h"
#include "ops/infer.h"
#include "ops/packed_rows.h"

namespace snug::ops {
namespace {

// Head geometry, and what dropout and packed samples need: `random` is the port of seed, followed by
// step, sample and starts.
PackedHeads checked(const OpView& op, size_t random) {
  const PackedHeads p = checked_heads(op);
  op.require(p.D <= kMaxHeadDim, "heads of {} elements: attention takes up to {}", p.D,
             kMaxHeadDim);
  if (op.attrs.has("window")) {
    const int64_t window = op.attrs.i("window");
    op.require(window > 0, "a window of {} keys", window);
    op.require(op.attrs.b("causal"), "a window of {} keys needs a causal mask", window);
  }
  if (op.attrs.has("scale")) {
    const double scale = op.attrs.f("scale");
    op.require(scale > 0, "scores are multiplied by {}, which is not positive", scale);
  }
  if (op.has(starts_port(random))) {
    require_starts(op, starts_port(random), p.B, p.T);
    op.require(op.attrs.b("causal"), "rows of several samples need a causal mask");
  }
  if (!op.attrs.has("p")) return p;
  const double dropout = op.attrs.f("p");
  op.require(dropout > 0 && dropout < 1, "dropout {} is not in [0, 1)", dropout);
  for (size_t port = random; port < random + 3; ++port) {
    op.require(op.has(port) && op.in(port) == Type{Dtype::i64, {}},
               "dropout {} needs seed, step and sample as i64 scalars", dropout);
  }
  return p;
}

Type output_type(const OpView& op, const PackedHeads& p) {
  return {op.in(0).dtype, {p.B, p.T, p.H * p.D}};
}

Type row_type(const PackedHeads& p) { return {Dtype::f32, {p.B, p.H, p.T}}; }
Type probs_type(const OpView& op, const PackedHeads& p) {
  return {op.in(0).dtype, {p.B, p.H, p.T, p.T}};
}

std::vector<Type> infer(const OpView& op) {
  const PackedHeads p = checked(op, 1);
  return {output_type(op, p), probs_type(op, p)};
}

// Flash and chunked attention: only statistics of the rows are kept.
std::vector<Type> infer_rows(const OpView& op) {
  const PackedHeads p = checked(op, 1);
  return {output_type(op, p), row_type(p)};
}

std::vector<Type> infer_grad(const OpView& op) {
  const PackedHeads p = checked(op, 3);
  require_type(op, 1, probs_type(op, p));
  require_type(op, 2, output_type(op, p));
  return {op.in(0)};
}

std::vector<Type> infer_rows_grad(const OpView& op) {
  const PackedHeads p = checked(op, 4);
  require_type(op, 1, output_type(op, p));
  require_type(op, 2, row_type(p));
  require_type(op, 3, output_type(op, p));
  return {op.in(0)};
}

void require_chunk(const OpView& op) {
  op.require(op.attrs.i("chunk") >= 1, "a chunk of {} queries", op.attrs.i("chunk"));
}

std::vector<Type> infer_chunked(const OpView& op) {
  require_chunk(op);
  return infer_rows(op);
}

std::vector<Type> infer_chunked_grad(const OpView& op) {
  require_chunk(op);
  return infer_rows_grad(op);
}

void grad(GradContext& g) {
  g.set(0,
        g.emit(attention_grad_def,
               {g.in(0), g.out(1), g.dout(0), g.in(1), g.in(2), g.in(3), g.in(4)}, g.attrs())[0]);
}

template <const OpDef& kGrad>
void grad_from_rows(GradContext& g) {
  g.set(0,
        g.emit(kGrad, {g.in(0), g.out(0), g.out(1), g.dout(0), g.in(1), g.in(2), g.in(3), g.in(4)},
               g.attrs())[0]);
}

PackedHeads heads_of(const OpView& op) { return packed_heads(op.shape(0), op.attrs); }

// Twice the pairs of a query and a key that it sees: T * T under a causal mask, less with a window.
// Where rows hold several samples that is an upper bound: how many pairs are seen is data.
int64_t twice_the_pairs(const PackedHeads& p, const SeenKeys& keys) {
  const auto product = [](int64_t a, int64_t b) { return checked_mul(a, b, "attention flops"); };
  if (!keys.causal) return product(2, product(p.T, p.T));
  const int64_t window = keys.window > 0 ? std::min(keys.window, p.T) : p.T;
  return product(window, 2 * p.T - window);
}

// `matmuls` of [T,T] by [T,D] per head, of the pairs that are seen.
int64_t flops(const OpView& op, int64_t matmuls) {
  const PackedHeads p = heads_of(op);
  int64_t flops = matmuls;
  for (int64_t n : {p.B, p.H, p.D, twice_the_pairs(p, seen_keys(op.attrs))}) {
    flops = checked_mul(flops, n, "attention flops");
  }
  return flops;
}

// Exponentials are one for each score: heads of half the width have twice as many for the same
// matmuls. Heads that share keys and values are served by other kernels.
Cost cost_of_matmuls(const OpView& op, int64_t matmuls, int64_t workspace) {
  const PackedHeads p = heads_of(op);
  return {.flops = flops(op, matmuls),
          .exps = flops(op, 1) / p.D,
          .variant = p.group() > 1,
          .workspace = workspace};
}

bool through_cudnn(const OpView& op) {
  return cudnn_serves(heads_of(op), op.in(0).dtype, op.attrs.has("p"), has_starts(op));
}

// On CUDA the standard kind keeps its rows' statistics, [B,H,T], between its two kernels.
Cost cost(const OpView& op, std::span<const Type>, Backend backend) {
  const PackedHeads p = heads_of(op);
  return cost_of_matmuls(
      op, 2,
      backend == Backend::cuda ? row_type(p).bytes() : attention_workspace(p, op.in(0).dtype));
}

// Our own kernels need no scratch; cuDNN's may, and is planned for where there is none too.
Cost cost_flash(const OpView& op, std::span<const Type>, Backend backend) {
  const bool scratch = backend == Backend::cuda && through_cudnn(op);
  return cost_of_matmuls(op, 2, scratch ? cudnn_attention_workspace() : 0);
}

// On CUDA flash's kernels serve the chunked kind.
Cost cost_chunked(const OpView& op, std::span<const Type> outputs, Backend backend) {
  if (backend == Backend::cuda) return cost_flash(op, outputs, backend);
  return cost_of_matmuls(op, 2, chunked_attention_workspace(heads_of(op), op.attrs.i("chunk")));
}

// Five matmuls; delta, [B,H,T], is scratch. On the CPU halves walk keys and queries apart and make
// `kShared` of them in both walks: dy v^T, and the scores where P is not kept. (f32 does so only
// where it has threads to spare: what is counted depends on no machine.)
template <int64_t kShared>
Cost cost_grad(const OpView& op, std::span<const Type>, Backend backend) {
  const bool apart = backend == Backend::cpu && is_half(op.in(0).dtype);
  return cost_of_matmuls(op, 5 + (apart ? kShared : 0), row_type(heads_of(op)).bytes());
}

// cuDNN's scratch is the larger.
Cost cost_flash_grad(const OpView& op, std::span<const Type> outputs, Backend backend) {
  Cost cost = cost_grad</*kShared=*/2>(op, outputs, backend);
  if (backend == Backend::cuda && through_cudnn(op)) {
    cost.workspace = std::max(cost.workspace, cudnn_attention_grad_workspace(heads_of(op)));
  }
  return cost;
}

Cost cost_chunked_grad(const OpView& op, std::span<const Type> outputs, Backend backend) {
  if (backend == Backend::cuda) return cost_flash_grad(op, outputs, backend);
  return cost_of_matmuls(
      op, 5, chunked_attention_grad_workspace(heads_of(op), op.attrs.i("chunk"), op.in(0).dtype));
}

const CudaKernel kFlashCuda{.run = SNUG_CUDA_KERNEL(flash_attention_cuda),
                            .prepare = SNUG_CUDA_KERNEL(prepare_flash_attention_cuda)};
const CudaKernel kFlashGradCuda{.run = SNUG_CUDA_KERNEL(flash_attention_grad_cuda),
                                .prepare = SNUG_CUDA_KERNEL(prepare_flash_attention_grad_cuda)};

Attrs attributes(const Attention& p, std::string key) {
  Attrs attrs{
      {"heads", p.heads}, {"kv_heads", p.kv_heads}, {"head_dim", p.head_dim}, {"causal", p.causal}};
  if (p.window > 0) attrs.set("window", p.window);
  if (p.scale != 0) attrs.set("scale", p.scale);
  if (p.kind == AttentionKind::chunked) attrs.set("chunk", p.chunk);
  if (p.dropout == 0) return attrs;
  attrs.set("p", p.dropout);
  attrs.set("key", std::move(key));
  return attrs;
}

const OpDef& def_of(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::standard:
      return attention_def;
    case AttentionKind::chunked:
      return chunked_attention_def;
    case AttentionKind::flash:
      return flash_attention_def;
  }
  throw internal_error("attention of kind {}", static_cast<int>(kind));
}

std::vector<Sample> samples() {
  const auto sample = [](const char* name, int64_t B, int64_t T, const Attention& p) {
    const int64_t width = (p.heads + 2 * p.kv_heads) * p.head_dim;
    Sample s{name, {{{Dtype::f32, {B, T, width}}}}, attributes(p, "h.0.attn")};
    for (double scalar : {11.0, 3.0, 16.0}) {  // seed, step, sample
      const Fill fill = p.dropout > 0 ? Fill::constant(scalar) : Fill::absent();
      s.inputs.push_back({{Dtype::i64, {}}, fill});
    }
    return s;
  };
  const auto packed = [&](const char* name, int64_t B, int64_t T, const Attention& p,
                          std::vector<int64_t> lengths) {
    Sample s = sample(name, B, T, p);
    s.inputs.push_back(packed_starts(B, T, std::move(lengths)));
    return s;
  };
  // Ranks share the heads: these are the third and those after it.
  Sample later = sample("dropout, later heads", 1, 67,
                        {.heads = 2, .kv_heads = 1, .head_dim = 8, .dropout = 0.2});
  later.attrs.set("first_head", 2);
  return {
      std::move(later),
      sample("one token", 2, 1, {.heads = 2, .kv_heads = 1, .head_dim = 4}),
      sample("causal", 2, 9, {.heads = 2, .kv_heads = 2, .head_dim = 8}),
      sample("full", 2, 9, {.heads = 2, .kv_heads = 2, .head_dim = 8, .causal = false}),
      sample("one tile", 1, kTile, {.heads = 1, .kv_heads = 1, .head_dim = 16}),
      sample("grouped", 1, 70, {.heads = 6, .kv_heads = 2, .head_dim = 12}),
      sample("three tiles", 1, 150, {.heads = 1, .kv_heads = 1, .head_dim = 20}),
      sample("full, tiles", 1, 131, {.heads = 2, .kv_heads = 1, .head_dim = 7, .causal = false}),
      sample("dropout", 2, 67, {.heads = 3, .kv_heads = 1, .head_dim = 8, .dropout = 0.2}),
      sample("full, dropout", 1, 66,
             {.heads = 2, .kv_heads = 2, .head_dim = 6, .causal = false, .dropout = 0.5}),
      sample("window of one", 1, 70, {.heads = 2, .kv_heads = 1, .head_dim = 8, .window = 1}),
      sample("window in a tile", 2, 150, {.heads = 2, .kv_heads = 1, .head_dim = 8, .window = 5}),
      sample("window, wide heads", 1, 70,
             {.heads = 2, .kv_heads = 1, .head_dim = 136, .window = 7}),
      sample("window of tiles", 1, 290, {.heads = 2, .kv_heads = 2, .head_dim = 4, .window = 101}),
      sample(
          "window, dropout, scale", 1, 131,
          {.heads = 2, .kv_heads = 1, .head_dim = 6, .window = 64, .scale = 0.3, .dropout = 0.25}),
      packed("packed, one sample", 2, 70, {.heads = 2, .kv_heads = 1, .head_dim = 8}, {70}),
      packed("packed, one token each", 1, 67, {.heads = 2, .kv_heads = 2, .head_dim = 4}, {1}),
      packed("packed in a tile", 2, 60, {.heads = 4, .kv_heads = 2, .head_dim = 8}, {7, 1, 30, 5}),
      packed("packed, whole tiles", 1, 200, {.heads = 2, .kv_heads = 1, .head_dim = 16}, {64, 128}),
      packed("packed over tiles", 2, 290, {.heads = 2, .kv_heads = 1, .head_dim = 8},
             {3, 65, 130, 1, 40}),
      packed("packed, wide heads", 1, 80, {.heads = 2, .kv_heads = 1, .head_dim = 136}, {37, 30}),
      packed("packed, window", 1, 200, {.heads = 2, .kv_heads = 2, .head_dim = 8, .window = 33},
             {90, 12, 70}),
      packed("packed, dropout", 2, 131, {.heads = 3, .kv_heads = 1, .head_dim = 8, .dropout = 0.2},
             {40, 66, 9}),
  };
}

// Chunks of one query, smaller and larger than a tile, that divide the sequence and not, beyond it.
std::vector<Sample> chunked_samples() {
  std::vector<Sample> all = samples();
  const int64_t chunks[] = {128, 1, 4, 64, 32, 100, 67, 48, 1000};
  for (size_t i = 0; i < all.size(); ++i) all[i].attrs.set("chunk", chunks[i % std::size(chunks)]);
  return all;
}

}  // namespace

const OpDef attention_def{
    .kind = "attention",
    .inputs = {"qkv", optional("seed"), optional("step"), optional("sample"), optional("starts")},
    .outputs = {"y", aux("probs")},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .served = served_attention,
    .random = true,
    .selective = true,
    .features = Features::in_heads,
    .kernels = float_kernels(attention_cpu, {.run = SNUG_CUDA_KERNEL(attention_cuda)}),
    .reference = attention_reference,
    .samples = samples,
};

const OpDef attention_grad_def{
    .kind = "attention_grad",
    .inputs = {"qkv", "probs", "dy", optional("seed"), optional("step"), optional("sample"),
               optional("starts")},
    .outputs = {"dqkv"},
    .infer = infer_grad,
    .cost = cost_grad</*kShared=*/1>,
    .served = served_attention,
    .random = true,
    .kernels = float_kernels(attention_grad_cpu, {.run = SNUG_CUDA_KERNEL(attention_grad_cuda)}),
    .reference = attention_grad_reference,
};

const OpDef chunked_attention_def{
    .kind = "chunked_attention",
    .inputs = {"qkv", optional("seed"), optional("step"), optional("sample"), optional("starts")},
    .outputs = {"y", aux("lse")},
    .infer = infer_chunked,
    .grad = grad_from_rows<chunked_attention_grad_def>,
    .cost = cost_chunked,
    .served = served_flash_attention,
    .random = true,
    .selective = true,
    .features = Features::in_heads,
    .kernels = float_kernels(chunked_attention_cpu, kFlashCuda),
    .reference = flash_attention_reference,
    .samples = chunked_samples,
};

const OpDef chunked_attention_grad_def{
    .kind = "chunked_attention_grad",
    .inputs = {"qkv", "y", "lse", "dy", optional("seed"), optional("step"), optional("sample"),
               optional("starts")},
    .outputs = {"dqkv"},
    .infer = infer_chunked_grad,
    .cost = cost_chunked_grad,
    .served = served_flash_attention,
    .random = true,
    .exact = {1, 2},  // y and lse: the probabilities and their gradients hang on them
    .kernels = float_kernels(chunked_attention_grad_cpu, kFlashGradCuda),
    .reference = flash_attention_grad_reference,
};

const OpDef flash_attention_def{
    .kind = "flash_attention",
    .inputs = {"qkv", optional("seed"), optional("step"), optional("sample"), optional("starts")},
    .outputs = {"y", aux("lse")},
    .infer = infer_rows,
    .grad = grad_from_rows<flash_attention_grad_def>,
    .cost = cost_flash,
    .served = served_flash_attention,
    .random = true,
    .selective = true,
    .features = Features::in_heads,
    .kernels = float_kernels(flash_attention_cpu, kFlashCuda),
    .reference = flash_attention_reference,
    .samples = samples,
};

const OpDef flash_attention_grad_def{
    .kind = "flash_attention_grad",
    .inputs = {"qkv", "y", "lse", "dy", optional("seed"), optional("step"), optional("sample"),
               optional("starts")},
    .outputs = {"dqkv"},
    .infer = infer_rows_grad,
    .cost = cost_flash_grad,
    .served = served_flash_attention,
    .random = true,
    .exact = {1, 2},  // y and lse: the probabilities and their gradients hang on them
    .kernels = float_kernels(flash_attention_grad_cpu, kFlashGradCuda),
    .reference = flash_attention_grad_reference,
};

ValueId attention(Builder& b, std::string_view name, const Attention& p) {
  const Random random = p.dropout != 0 ? p.random : Random{};
  return b.emit(def_of(p.kind), name, {p.qkv, random.seed, random.step, random.sample, p.starts},
                attributes(p, b.full_name(name)))[0];
}

}  // namespace snug::ops
