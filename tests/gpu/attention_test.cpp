// Attention on our own tensor-core kernels: every way in which heads and tiles are cut.
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/cuda_rounding.h"
#include "gpu/cuda_runner.h"
#include "ops/attention/attention.h"
#include "ops/packed_rows.h"
#include "ops/testing/op_check.h"
#include "ops/testing/tensor_bytes.h"

namespace snug {
namespace {

struct Heads {
  int64_t B, T, heads, kv_heads, head_dim;
  bool causal;
  double dropout;
};

Sample sample_of(const Heads& h) {
  Attrs attrs{
      {"heads", h.heads}, {"kv_heads", h.kv_heads}, {"head_dim", h.head_dim}, {"causal", h.causal}};
  Sample sample{
      fmt::format("{} x {} tokens, {} heads of {}, {} kv, {}, dropout {}", h.B, h.T, h.heads,
                  h.head_dim, h.kv_heads, h.causal ? "causal" : "full", h.dropout),
      {{{Dtype::f32, {h.B, h.T, (h.heads + 2 * h.kv_heads) * h.head_dim}}}}};
  if (h.dropout > 0) {
    attrs.set("p", h.dropout);
    attrs.set("key", "h.0.attn");
    for (const double scalar : {11.0, 3.0, 16.0})  // seed, step, sample
      sample.inputs.push_back({{Dtype::i64, {}}, Fill::constant(scalar)});
  }
  sample.attrs = std::move(attrs);
  return sample;
}

// Sequences of whole eights and of others, a tile and several; heads of whole packs and others.
constexpr Heads kHeads[] = {
    {2, 136, 2, 2, 64, true, 0.1},  {1, 300, 4, 2, 64, true, 0.2},  {1, 131, 2, 1, 40, false, 0.5},
    {1, 264, 2, 1, 128, true, 0.1}, {1, 67, 2, 2, 100, false, 0.3}, {1, 130, 1, 1, 7, true, 0.1},
    {1, 512, 1, 1, 64, false, 0.1},
};
// And those that cuDNN does not take without dropout.
constexpr Heads kOtherHeads[] = {
    {1, 136, 2, 1, 256, true, 0.1}, {1, 131, 2, 2, 160, false, 0.2}, {1, 200, 1, 1, 192, true, 0},
    {1, 72, 2, 1, 256, false, 0},   {1, 70, 2, 1, 250, true, 0.1},   {1, 33, 1, 1, 131, true, 0},
    {1, 140, 2, 1, 100, true, 0},   {1, 140, 2, 1, 44, false, 0},
};

void check(const Heads& heads, Dtype dtype, const Math& math, const Oracle& oracle) {
  const Sample sample = in_dtype(sample_of(heads), dtype);
  SCOPED_TRACE(fmt::format("{} in {}", sample.name, name_of(dtype)));
  CudaRunner runner(math);
  check_kernels(build_case(ops::flash_attention_def, sample), runner, oracle);
}

constexpr Math kSameBits{.deterministic = true};
constexpr Math kTf32{.deterministic = true, .tf32 = true};

}  // namespace

TEST(AttentionOnTensorCores, HalvesAgreeWithTheReference) {
  SNUG_NEEDS_CUDA;
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16})
    for (const Heads& heads : kHeads)
      check(heads, dtype, kSameBits, with_cuda_rounding(expect_reference));
}

TEST(AttentionOnTensorCores, OtherHeadsAgreeWithTheReference) {
  SNUG_NEEDS_CUDA;
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16})
    for (const Heads& heads : kOtherHeads)
      check(heads, dtype, kSameBits, with_cuda_rounding(expect_reference));
}

TEST(AttentionOnTensorCores, FloatsAsTf32AgreeWithTheReference) {
  SNUG_NEEDS_CUDA;
  for (Heads heads : kHeads) {
    check(heads, Dtype::f32, kTf32, with_tf32_attention(expect_reference));
    heads.dropout = 0;
    check(heads, Dtype::f32, kTf32, with_tf32_attention(expect_reference));
  }
}

// Samples inside a tile and over several, that end where tiles end and inside them; heads of each
// width; with dropout and a window too. Plain tiles have the samples of the op.
TEST(AttentionOnTensorCores, PackedSamplesAgreeWithTheReference) {
  SNUG_NEEDS_CUDA;
  struct Packed {
    Heads heads;
    std::vector<int64_t> lengths;
    int64_t window = 0;
  };
  const Packed all[] = {
      {{2, 300, 4, 2, 64, true, 0}, {3, 129, 1, 64, 40}},
      {{2, 384, 2, 1, 128, true, 0}, {128, 64, 192}},
      {{1, 264, 2, 2, 64, true, 0.1}, {100, 30, 134}},
      {{1, 262, 2, 1, 128, true, 0.2}, {7, 200, 55}},
      {{1, 320, 2, 1, 64, true, 0}, {150, 10}, 70},
      {{1, 200, 2, 1, 256, true, 0}, {33, 90, 5}},
      {{3, 131, 1, 1, 40, true, 0}, {1}},
  };
  for (const Packed& p : all) {
    Sample packed = sample_of(p.heads);
    packed.inputs.resize(4, {{Dtype::i64, {}}, Fill::absent()});  // seed, step, sample
    packed.inputs.push_back(ops::packed_starts(p.heads.B, p.heads.T, p.lengths));
    if (p.window > 0) packed.attrs.set("window", p.window);
    SCOPED_TRACE(fmt::format("{}, packed, window {}", packed.name, p.window));
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
      CudaRunner runner(kSameBits);
      check_kernels(build_case(ops::flash_attention_def, in_dtype(packed, dtype)), runner,
                    with_cuda_rounding(expect_reference));
    }
    if (p.heads.head_dim > 128) continue;  // not as tf32
    CudaRunner runner(kTf32);
    check_kernels(build_case(ops::flash_attention_def, packed), runner,
                  with_tf32_attention(expect_reference));
  }
}

// Floats that are not to be rounded are not.
TEST(AttentionOnTensorCores, FloatsWithoutTf32KeepTheirBits) {
  SNUG_NEEDS_CUDA;
  check(kHeads[0], Dtype::f32, kSameBits, expect_reference);
}

// With equal scores and one key's value in each column, y shows the mask itself.
TEST(AttentionOnTensorCores, MasksMatchCpuBitForBit) {
  SNUG_NEEDS_CUDA;
  for (const int64_t T : {128, 123}) {
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
      SCOPED_TRACE(fmt::format("{} tokens in {}", T, name_of(dtype)));
      OpCase c = build_case(ops::flash_attention_def,
                            in_dtype(sample_of({2, T, 2, 2, 128, false, 0.3}), dtype));
      RefTensor& qkv = c.given.at(0).second;
      for (int64_t at = 0; at < std::ssize(qkv.v); ++at) {
        const int64_t column = at % (6 * 128), token = at / (6 * 128) % T;
        qkv.v[static_cast<size_t>(at)] = column >= 4 * 128 && column % 128 == token ? 1 : 0;
      }
      Buffers values;
      for (const Value& value : c.module.values) values.emplace_back(value.type.bytes());
      for (const auto& [id, tensor] : c.given)
        std::ranges::copy(to_bytes(tensor), values[at(id)].data());
      const Op& op = c.program().ops.at(0);
      CudaRunner on_gpu(kTf32);
      const Buffers gpu = on_gpu.run(c, op, values, {}), cpu = CpuRunner().run(c, op, values, {});
      const Type& type = c.module[op.outputs[0]].type;
      const std::vector<double> got = from_bytes(type, gpu[0].data()).v;
      const std::vector<double> want = from_bytes(type, cpu[0].data()).v;
      size_t kept = 0, different = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        kept += want[i] != 0 ? 1 : 0;
        different += (got[i] != 0) != (want[i] != 0) ? 1 : 0;
      }
      EXPECT_EQ(different, 0) << "of " << want.size() << " elements";
      EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(2 * 2 * T * T), 0.7, 0.02);
    }
  }
}

}  // namespace snug
