#include "gpu/training_samples.h"

#include "ir/builder.h"
#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"
#include "ops/linear/linear.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/optimizer/adamw.h"
#include "ops/optimizer/clip.h"
#include "ops/optimizer/update_op.h"
#include "ops/rotary/rope.h"

namespace snug {
namespace {

constexpr Dtype kFloat = Dtype::f32;

SampleInput scalar(Dtype dtype, double value) { return {{dtype, {}}, Fill::constant(value)}; }

SampleInput tokens(const ModelShape& m) {
  return {{Dtype::i32, {m.B, m.T}}, Fill::integers(static_cast<double>(m.V))};
}

Sample packed_qkv(const ModelShape& m, Attrs attrs) {
  for (const auto& [key, value] : {std::pair{"heads", m.H}, {"kv_heads", m.K}, {"head_dim", m.D}})
    attrs.set(key, value);
  return {m.name, {{{kFloat, {m.B, m.T, (m.H + 2 * m.K) * m.D}}}}, std::move(attrs)};
}

}  // namespace

const std::vector<ModelShape>& qwen_shapes() {
  static const std::vector<ModelShape> all{
      {"Qwen2.5-0.5B", 32, 1024, 896, 14, 2, 64, 4864, 151936, 24, true},
      {"Qwen2.5-1.5B", 16, 1024, 1536, 12, 2, 128, 8960, 151936, 28, true},
      {"Qwen2.5-7B", 4, 1024, 3584, 28, 4, 128, 18944, 152064, 28, false}};
  return all;
}

std::vector<int64_t> ModelShape::parameter_elements() const {
  const int64_t qkv = (H + 2 * K) * D;
  std::vector<int64_t> all{V * C};
  for (int64_t layer = 0; layer < layers; ++layer)
    all.insert(all.end(), {C, qkv * C, qkv, C * H * D, C, 2 * F * C, C * F});
  all.push_back(C);
  if (!tied) all.push_back(V * C);
  return all;
}

// Norms take [B,T,C], as often as they have such inputs, then their parameters [C].
TrainingSample norm_sample(const ModelShape& m, const OpDef& def) {
  Sample sample{m.name, {}, {{"eps", 1e-6}}};
  for (const Port& port : def.inputs) {
    const bool is_param = port.name == "weight" || port.name == "bias";
    sample.inputs.push_back({{kFloat, is_param ? Shape{m.C} : Shape{m.B, m.T, m.C}}});
  }
  return {&def, std::move(sample)};
}

TrainingSample activation_sample(const ModelShape& m, const OpDef& def) {
  const bool gated = def.inputs[0].name == "gate_up";
  return {&def, {m.name, {{{kFloat, {m.B, m.T, gated ? 2 * m.F : m.F}}}}, {{"tanh", true}}}};
}

TrainingSample rope_sample(const ModelShape& m) {
  return {&ops::rope_def, packed_qkv(m, {{"theta", 1e6}})};
}

TrainingSample attention_sample(const ModelShape& m) {
  return {&ops::flash_attention_def, packed_qkv(m, {{"causal", true}})};
}

TrainingSample embedding_sample(const ModelShape& m) {
  return {&ops::embedding_def, {m.name, {{{kFloat, {m.V, m.C}}}, tokens(m)}}};
}

TrainingSample embedding_grad_sample(const ModelShape& m) {
  return {&ops::embedding_grad_def,
          {m.name + ", a sum",
           {{{kFloat, {m.B, m.T, m.C}}}, tokens(m), {{kFloat, {m.V, m.C}}}},
           {{"rows", m.V}}}};
}

TrainingSample bias_grad_sample(const ModelShape& m) {
  const int64_t qkv = (m.H + 2 * m.K) * m.D;
  return {&ops::linear_grad_bias_def,
          {m.name + ", a sum", {{{kFloat, {m.B, m.T, qkv}}}, {{kFloat, {qkv}}}}}};
}

// Weights as small as a trained head's: logits of a few units.
TrainingSample head_sample(const ModelShape& m, int64_t chunk) {
  return {&ops::linear_cross_entropy_def,
          {m.name,
           {{{kFloat, {m.B, m.T, m.C}}}, {{kFloat, {m.V, m.C}}, Fill::normal(0.05)}, tokens(m)},
           {{"chunk", chunk}}}};
}

TrainingSample adamw_sample(int64_t elements) {
  const Type type{kFloat, {elements}};
  return {&ops::adamw_def,
          {fmt::format("{} elements", elements),
           {{type},
            {type},
            {type, Fill::normal(0.1)},
            {type, Fill::constant(0.3)},
            scalar(Dtype::f32, 1e-2),
            scalar(Dtype::i64, 3),
            scalar(Dtype::f32, 0.5),
            scalar(Dtype::i64, 11)},
           {{"beta1", 0.9},
            {"beta2", 0.95},
            {"eps", 1e-8},
            {"weight_decay", 0.1},
            {"key", "update.w"}}}};
}

TrainingSample adamw_master_sample(int64_t elements) {
  Sample sample = adamw_sample(elements).sample;
  const Type half{Dtype::bf16, {elements}};
  sample.inputs[ops::UpdatePorts::kGrad].type = half;
  const size_t weight = ops::UpdatePorts(ops::adamw_def.outputs.size()).lr;
  sample.inputs.insert(sample.inputs.begin() + static_cast<std::ptrdiff_t>(weight), {half});
  return {&ops::adamw_master_def, std::move(sample)};
}

TrainingSample sum_squares_sample(int64_t elements) {
  return {&ops::sum_squares_def, {fmt::format("{} elements", elements), {{{kFloat, {elements}}}}}};
}

void add_fused_recompute(OpCase& c) {
  const std::vector<Op> ops = c.program().ops;  // emitting moves the list
  const auto& fused_recompute = ops.at(0).def->fused_recompute;
  if (!fused_recompute) return;
  Builder b(c.module, c.program().name);
  for (const Op& op : ops) {
    if (op.def != fused_recompute->grad) continue;
    std::vector<ValueId> inputs = op.inputs;
    inputs.resize(op.def->inputs.size());
    for (const int port : fused_recompute->inputs)
      inputs.push_back(ops[0].inputs[static_cast<size_t>(port)]);
    b.emit(*fused_recompute->with, "op.recompute", std::move(inputs), op.attrs);
  }
}

}  // namespace snug
