#include "ops/attention/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <optional>

#include "ops/attention/attention_cpu.h"
#include "ops/attention/attention_server.h"
#include "ops/testing/op_check.h"

namespace snug::ops {
namespace {

TEST(Attention, Checks) { check_op(attention_def); }
TEST(Attention, ChecksInHalves) { check_op_in_halves(attention_def); }
TEST(ChunkedAttention, Checks) { check_op(chunked_attention_def); }
TEST(ChunkedAttention, ChecksInHalves) { check_op_in_halves(chunked_attention_def); }
TEST(FlashAttention, Checks) { check_op(flash_attention_def); }
TEST(FlashAttention, ChecksInHalves) { check_op_in_halves(flash_attention_def); }

// --- the kinds, kernel against kernel ---

constexpr AttentionKind kKinds[] = {AttentionKind::standard, AttentionKind::chunked,
                                    AttentionKind::flash};

struct Problem {
  int64_t B, T, H, K, D;
  bool causal;
  double dropout;
  int64_t sample = 7;  // global index of the first
  int64_t chunk = 48;
};

struct Result {
  std::vector<float> y, dqkv;
};

// Every sample has its own numbers, wherever it is in the batch.
std::vector<float> noise(const Value& value, const Problem& p) {
  std::vector<float> v(static_cast<size_t>(value.type.shape.elements()));
  const size_t first = static_cast<size_t>(p.sample) * v.size() / static_cast<size_t>(p.B);
  const Key key = random_key(1, 2, hash_name(value.name));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(normal_pair(key, first + i)[0]);
  return v;
}

// Builds the op through the public builder, then runs its forward and backward kernels.
Result run(const Problem& p, AttentionKind kind) {
  Module module{.name = "test"};
  Builder b(module, "test");
  const Type wide{Dtype::f32, {p.B, p.T, (p.H + 2 * p.K) * p.D}};
  const auto input = [&](const char* name, Type type) {
    return add_shared(module, name, type, Category::inputs, Scope::step);
  };
  const Random random{input("seed", {Dtype::i64, {}}), input("step", {Dtype::i64, {}}),
                      input("sample", {Dtype::i64, {}})};
  const ValueId y = attention(b, "attn",
                              {.qkv = input("qkv", wide),
                               .heads = p.H,
                               .kv_heads = p.K,
                               .head_dim = p.D,
                               .causal = p.causal,
                               .kind = kind,
                               .chunk = p.chunk,
                               .dropout = p.dropout,
                               .random = random});
  const ValueId dy = input("dy", module[y].type);
  GradContext g(b, b.last(), {dy, ValueId{}}, {true});
  b.last().def->grad(g);

  std::vector<std::vector<float>> data;
  for (const Value& v : module.values) data.push_back(noise(v, p));
  int64_t scalars[] = {5, 6, p.sample};
  for (const Op& op : module.programs[0].ops) {
    std::vector<Tensor> in, out;
    for (ValueId id : op.inputs) {
      if (!id.valid()) {
        in.emplace_back();
      } else if (id <= random.sample) {
        in.push_back({&scalars[id.index], &module[id].type});
      } else {
        in.push_back({data[static_cast<size_t>(id.index)].data(), &module[id].type});
      }
    }
    for (ValueId id : op.outputs) {
      out.push_back({data[static_cast<size_t>(id.index)].data(), &module[id].type});
    }
    std::vector<std::byte> scratch(
        static_cast<size_t>(cost_of(module, op, Backend::cpu).workspace));
    op.def->kernel(Backend::cpu, Dtype::f32)(KernelArgs{in, out, scratch, op.attrs});
  }
  return {data[static_cast<size_t>(y.index)], data[static_cast<size_t>(g.input_grads()[0].index)]};
}

const Problem kProblems[] = {
    {2, 100, 6, 2, 24, true, 0},   {1, 130, 2, 2, 16, false, 0}, {2, 100, 4, 2, 16, true, 0.3},
    {1, 77, 2, 1, 16, false, 0.1}, {1, 200, 1, 1, 32, true, 0},
};

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], 1e-5 * (1 + std::abs(b[i]))) << "element " << i;
  }
}

TEST(Attention, KindsAgreeInValuesAndGradients) {
  for (const Problem& p : kProblems) {
    SCOPED_TRACE(
        fmt::format("T {} H {} K {} causal {} dropout {}", p.T, p.H, p.K, p.causal, p.dropout));
    const Result standard = run(p, AttentionKind::standard);
    for (const AttentionKind kind : {AttentionKind::chunked, AttentionKind::flash}) {
      const Result other = run(p, kind);
      expect_near(other.y, standard.y);
      expect_near(other.dqkv, standard.dqkv);
    }
  }
}

// One thread walks kv head by kv head; 16 threads walk tile by tile.
TEST(Attention, BitsDoNotDependOnThreads) {
  const int before = omp_get_max_threads();
  for (const AttentionKind kind : kKinds) {
    for (const Problem& p : kProblems) {
      omp_set_num_threads(1);
      const Result one = run(p, kind);
      omp_set_num_threads(16);
      const Result many = run(p, kind);
      EXPECT_EQ(one.y, many.y);
      EXPECT_EQ(one.dqkv, many.dqkv);
    }
  }
  omp_set_num_threads(before);
}

TEST(Attention, DropoutFollowsSampleNotBatchPosition) {
  for (const AttentionKind kind : kKinds) {
    const Result both = run({2, 40, 2, 1, 8, true, 0.4, 7}, kind);
    const Result second = run({1, 40, 2, 1, 8, true, 0.4, 8}, kind);
    const Result shifted = run({1, 40, 2, 1, 8, true, 0.4, 9}, kind);
    const auto half = static_cast<std::ptrdiff_t>(both.y.size() / 2);
    EXPECT_EQ(std::vector<float>(both.y.begin() + half, both.y.end()), second.y);
    EXPECT_NE(second.y, shifted.y);
  }
}

// --- costs ---

struct Costs {
  int64_t kept = 0, scratch = 0;  // bytes: for backward; the most that one op needs
  int64_t backward_flops = 0;
};

Costs costs(AttentionKind kind, Dtype dtype, int64_t T) {
  constexpr int64_t H = 8, D = 64;
  Module module{.name = "test"};
  Builder b(module, "test");
  const Type wide{dtype, {2, T, 3 * H * D}};
  const ValueId qkv = add_shared(module, "qkv", wide, Category::inputs, Scope::step);
  const ValueId y =
      attention(b, "attn", {.qkv = qkv, .heads = H, .kv_heads = H, .head_dim = D, .kind = kind});
  const ValueId dy = add_shared(module, "dy", module[y].type, Category::inputs, Scope::step);
  GradContext g(b, b.last(), {dy, ValueId{}}, {true});
  b.last().def->grad(g);
  Costs total;
  for (ValueId id : module.programs[0].ops[0].outputs) total.kept += module[id].type.bytes();
  for (const Op& op : module.programs[0].ops) {
    total.scratch = std::max(total.scratch, cost_of(module, op, Backend::cpu).workspace);
  }
  total.backward_flops = cost_of(module, b.last(), Backend::cpu).flops;
  return total;
}

TEST(Attention, OnlyStandardKindGrowsQuadratically) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const AttentionKind kind : {AttentionKind::chunked, AttentionKind::flash}) {
      const Costs once = costs(kind, dtype, 1 << 10), more = costs(kind, dtype, 1 << 16);
      EXPECT_EQ(more.kept, 64 * once.kept);
      EXPECT_EQ(more.scratch, 64 * once.scratch);
    }
    EXPECT_GT(costs(AttentionKind::standard, dtype, 1 << 12).kept,
              12 * costs(AttentionKind::standard, dtype, 1 << 10).kept);
  }
}

TEST(Attention, HalvesKeepProbabilitiesInHalves) {
  const Costs full = costs(AttentionKind::standard, Dtype::f32, 512);
  const Costs half = costs(AttentionKind::standard, Dtype::bf16, 512);
  EXPECT_EQ(2 * half.kept, full.kept);
}

// Halves make dy v^T twice, and the scores too where they have no probabilities to read.
TEST(Attention, FlopsCountRecomputedHalves) {
  const auto matmuls = [](AttentionKind kind, Dtype dtype) {
    constexpr int64_t kMatmul = 2LL * 8 * 512 * 512 * 64;  // causal, of all samples and heads
    return costs(kind, dtype, 512).backward_flops / kMatmul;
  };
  for (const AttentionKind kind : kKinds) EXPECT_EQ(matmuls(kind, Dtype::f32), 5);
  EXPECT_EQ(matmuls(AttentionKind::standard, Dtype::bf16), 6);
  EXPECT_EQ(matmuls(AttentionKind::chunked, Dtype::bf16), 5);
  EXPECT_EQ(matmuls(AttentionKind::flash, Dtype::f16), 7);
}

// Qwen2.5-0.5B's micro-batch. dq in f32, dk and dv of every q head in halves, little more.
TEST(Attention, CudnnScratchFollowsTheShape) {
  const PackedHeads p{.B = 32, .T = 1024, .H = 14, .K = 2, .D = 64};
  const int64_t dq = p.B * p.H * p.T * p.D * 4;
  EXPECT_GE(cudnn_attention_grad_workspace(p), 2 * dq + p.B * p.H * p.T * 4);
  EXPECT_LT(cudnn_attention_grad_workspace(p), 2.1 * static_cast<double>(dq));
  EXPECT_TRUE(cudnn_serves(p, Dtype::bf16, /*dropout=*/false, /*packed=*/false));
  EXPECT_FALSE(cudnn_serves(p, Dtype::bf16, /*dropout=*/true, /*packed=*/false));
  EXPECT_FALSE(cudnn_serves(p, Dtype::bf16, /*dropout=*/false, /*packed=*/true));
  EXPECT_FALSE(cudnn_serves(p, Dtype::f32, /*dropout=*/false, /*packed=*/false));
}

TEST(Attention, UsesFastestServer) {
  const auto server = [](int64_t D, Dtype dtype, AttentionNeeds needs = {}) {
    return attention_server({.B = 2, .T = 128, .H = 4, .K = 2, .D = D}, dtype, needs);
  };
  EXPECT_EQ(server(64, Dtype::bf16), Server::cudnn);
  EXPECT_EQ(server(128, Dtype::f16), Server::cudnn);
  EXPECT_EQ(server(64, Dtype::bf16, {.dropout = true}), Server::tensor_cores);
  EXPECT_EQ(server(64, Dtype::bf16, {.packed = true}), Server::tensor_cores);
  EXPECT_EQ(server(64, Dtype::f32, {.packed = true}), Server::plain_tiles);
  EXPECT_EQ(server(36, Dtype::bf16), Server::tensor_cores);
  EXPECT_EQ(server(256, Dtype::f16), Server::tensor_cores);
  EXPECT_EQ(server(128, Dtype::f32, {.tf32 = true}), Server::tensor_cores);
  EXPECT_EQ(server(64, Dtype::f32, {.dropout = true, .tf32 = true}), Server::tensor_cores);
  EXPECT_EQ(server(129, Dtype::f32, {.tf32 = true}), Server::plain_tiles);
  EXPECT_EQ(server(64, Dtype::f32), Server::plain_tiles);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (int64_t D = 1; D <= kMaxHeadDim; ++D) {
      EXPECT_NE(server(D, dtype), Server::plain_tiles) << D;
      EXPECT_TRUE(server(D, dtype) != Server::cudnn ||
                  mma_serves({.B = 1, .T = 2, .H = 1, .K = 1, .D = D}, dtype, false))
          << "where there is no cuDNN, tensor cores serve";
    }
  }
}

// An op of a module says the same, and why.
TEST(Attention, ExplainsWhyCudnnIsNotUsed) {
  const auto served = [](AttentionKind kind, Dtype dtype, int64_t D, const Math& math = {},
                         bool packed = false) {
    Module module{.name = "test"};
    Builder b(module, "test");
    const ValueId qkv =
        add_shared(module, "qkv", {dtype, {2, 16, 3 * D}}, Category::inputs, Scope::step);
    const ValueId starts =
        add_shared(module, "starts", {Dtype::i32, {2, 16}}, Category::inputs, Scope::step);
    attention(b, "attn",
              {.qkv = qkv,
               .heads = 1,
               .kv_heads = 1,
               .head_dim = D,
               .kind = kind,
               .starts = packed ? starts : ValueId{}});
    return served_on_gpu(module, module.programs.front().ops.front(), math);
  };
  using enum AttentionKind;
  EXPECT_EQ(served(flash, Dtype::bf16, 64), Served{Server::cudnn});
  EXPECT_EQ(served(chunked, Dtype::bf16, 64), Served{Server::cudnn});
  EXPECT_EQ(served(flash, Dtype::bf16, 256),
            (Served{Server::tensor_cores, "heads of more than 128 elements"}));
  EXPECT_EQ(served(flash, Dtype::bf16, 64, {}, /*packed=*/true),
            (Served{Server::tensor_cores, "packed samples"}));
  EXPECT_EQ(served(flash, Dtype::f32, 64, {.tf32 = true}),
            (Served{Server::tensor_cores, "fp32 as tf32"}));
  EXPECT_EQ(served(flash, Dtype::f32, 64),
            (Served{Server::plain_tiles, "fp32 without --tf32", "--tf32 or --precision bf16"}));
  EXPECT_EQ(served(flash, Dtype::f32, 256),
            (Served{Server::plain_tiles, "fp32 without --tf32", "--precision bf16"}));
  EXPECT_EQ(served(flash, Dtype::f32, 256, {.tf32 = true}).why,
            "fp32 and heads of more than 128 elements");
  EXPECT_EQ(served(standard, Dtype::bf16, 64),
            (Served{Server::plain_tiles, "--attention standard", "--attention flash"}));
}

// --- refusals ---

// `starts`: of what type; none: there are none.
std::string refusal(int64_t width, const Attention& p, std::optional<Type> starts = {}) {
  Module module{.name = "test"};
  Builder b(module, "test");
  Attention op = p;
  if (starts) op.starts = add_shared(module, "starts", *starts, Category::inputs, Scope::step);
  op.qkv = add_shared(module, "qkv", {Dtype::f32, {2, 8, width}}, Category::inputs, Scope::step);
  try {
    attention(b, "h.3.attn", op);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.what();
  }
  return "accepted";
}

TEST(Attention, RefusesMismatchedInputs) {
  using ::testing::HasSubstr;
  EXPECT_EQ(refusal(80, {.heads = 6, .kv_heads = 2, .head_dim = 8}), "accepted");
  EXPECT_THAT(refusal(80, {.heads = 6, .kv_heads = 4, .head_dim = 8}),
              HasSubstr("6 heads do not share 4 kv heads evenly"));
  EXPECT_THAT(refusal(81, {.heads = 6, .kv_heads = 2, .head_dim = 8}),
              HasSubstr("has width 81, but 6 heads and 2 x 2 kv heads of 8 elements need 80"));
  EXPECT_THAT(refusal(80, {.heads = 6, .kv_heads = 0, .head_dim = 8}), HasSubstr("positive"));
  EXPECT_THAT(refusal(900, {.heads = 1, .kv_heads = 1, .head_dim = 300}),
              HasSubstr("heads of 300 elements: attention takes up to 256"));
  EXPECT_THAT(refusal(80, {.heads = 6, .kv_heads = 2, .head_dim = 8, .dropout = 1.5}),
              HasSubstr("dropout 1.5"));
  EXPECT_THAT(refusal(80, {.heads = 6, .kv_heads = 2, .head_dim = 8, .dropout = 0.1}),
              HasSubstr("seed, step and sample"));
  EXPECT_THAT(
      refusal(
          80,
          {.heads = 6, .kv_heads = 2, .head_dim = 8, .kind = AttentionKind::chunked, .chunk = 0}),
      HasSubstr("a chunk of 0 queries"));
}

TEST(Attention, RefusesMismatchedStarts) {
  using ::testing::HasSubstr;
  const Attention p{.heads = 6, .kv_heads = 2, .head_dim = 8};
  EXPECT_EQ(refusal(80, p, Type{Dtype::i32, {2, 8}}), "accepted");
  EXPECT_THAT(refusal(80, p, Type{Dtype::i32, {2, 7}}),
              HasSubstr("starts is i32[2,7], not i32[2,8]"));
  EXPECT_THAT(refusal(80, p, Type{Dtype::i64, {2, 8}}),
              HasSubstr("starts is i64[2,8], not i32[2,8]"));
  Attention full = p;
  full.causal = false;
  EXPECT_THAT(refusal(80, full, Type{Dtype::i32, {2, 8}}),
              HasSubstr("rows of several samples need a causal mask"));
}

}  // namespace
}  // namespace snug::ops
