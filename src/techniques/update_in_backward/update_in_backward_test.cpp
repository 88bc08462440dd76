// Where updates stand in backward, what they wait for, and how long gradients live.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "passes/testing/two_layers.h"
#include "settings/parse.h"
#include "techniques/recompute/recompute.h"
#include "techniques/update_in_backward/update_in_backward.h"

namespace snug {
namespace {

using ::testing::Contains;

constexpr const char* kParams[] = {"embed.weight",  "0.norm.weight", "0.qkv.weight", "0.out.weight",
                                   "1.norm.weight", "1.qkv.weight",  "1.out.weight", "norm.weight"};

Module updated(Recipe recipe) {
  recipe.update_in_backward = true;
  recipe.clip = 0;
  Module module = with_backward(two_attentions, recipe);
  recompute(module, "micro_first", values_to_keep(module, "micro_first", recipe.recompute));
  eliminate_dead(module);
  accumulate(module, recipe);
  update_in_backward(module, recipe);
  expect_sound(module);
  return module;
}

struct Case {
  const char* name;
  Recipe recipe;
};

class UpdateInBackward : public ::testing::TestWithParam<Case> {
 protected:
  UpdateInBackward()
      : module_(updated(GetParam().recipe)),
        program_(module_.program(GetParam().recipe.accum == 1 ? "micro_first" : "micro_last")) {}

  size_t index(std::string_view name) const {
    return static_cast<size_t>(&find(program_, name) - program_.ops.data());
  }
  const Op& maker(ValueId id) const {
    const auto at = std::ranges::find_if(
        program_.ops, [&](const Op& op) { return std::ranges::count(op.outputs, id) > 0; });
    if (at == program_.ops.end()) throw internal_error("no op makes '{}'", module_[id].name);
    return *at;
  }
  ValueId grad_read_by(const Op& update) const {
    return update.inputs.at(static_cast<size_t>(update.def->input_port("grad")));
  }
  // What forward and backward read: the rounded copy where there is a master.
  ValueId working_copy(const std::string& name) const {
    const ValueId rounded = module_.find_shared(name + ".bf16");
    return rounded.valid() ? rounded : module_.find_shared(name);
  }

  Module module_;
  const Program& program_;
};

TEST_P(UpdateInBackward, FollowsLastParameterReadAndGradientWrite) {
  for (const char* name : kParams) {
    SCOPED_TRACE(name);
    const size_t at = index(std::string("update.") + name);
    const ValueId grad = module_.root(grad_read_by(program_.ops[at]));
    const ValueId param = working_copy(name);
    size_t complete = 0;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      if (op.phase == Phase::update) continue;
      const bool reads = std::ranges::any_of(
          op.inputs, [&](ValueId id) { return id.valid() && module_.root(id) == param; });
      const bool writes =
          std::ranges::any_of(op.outputs, [&](ValueId id) { return module_.root(id) == grad; });
      if (reads || writes) complete = i;
    }
    EXPECT_GT(at, complete);
    for (size_t i = complete + 1; i < at; ++i)
      EXPECT_EQ(program_.ops[i].phase, Phase::update) << "and not later than it could";
  }
}

TEST_P(UpdateInBackward, GradientsAreLocalUnlessMicroBatchesAddUp) {
  const bool carried = GetParam().recipe.accum > 1;
  for (const char* name : kParams) {
    const Op& op = find(program_, std::string("update.") + name);
    const Value& grad = module_[module_.root(grad_read_by(op))];
    EXPECT_EQ(grad.shared(), carried) << name;
    EXPECT_EQ(grad.category, Category::grads) << name;
    EXPECT_EQ(module_.find_shared(std::string("grad.") + name).valid(), carried) << name;
  }
}

TEST_P(UpdateInBackward, OnlyTheLastMicroBatchUpdates) {
  EXPECT_LT(module_.program_index("update"), 0);
  for (const Program& program : module_.programs) {
    const bool updates = std::ranges::any_of(
        program.ops, [](const Op& op) { return op.name.starts_with("update."); });
    EXPECT_EQ(updates, program.name == program_.name) << program.name;
  }
}

TEST_P(UpdateInBackward, GlobalNormIsStillReported) {
  const auto reports = writers(module_, program_, module_.find_shared("grad_norm"));
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0], &program_.ops.back());
  EXPECT_EQ(reports[0]->layer, kNoLayer);
  std::vector<ValueId> squares;  // in the order of the parameters
  for (const char* name : kParams)
    squares.push_back(find(program_, fmt::format("update.{}.squares", name)).outputs[0]);
  const auto first = static_cast<size_t>(reports[0]->def->input_port("sum_squares"));
  EXPECT_THAT(std::span(reports[0]->inputs).subspan(first), ::testing::ElementsAreArray(squares));
}

// Each update asks its own gradient, as complete as the one that it reads.
TEST_P(UpdateInBackward, NonFiniteGradientOrLossKeepsParameter) {
  for (const char* name : kParams) {
    SCOPED_TRACE(name);
    const Op& update = find(program_, std::string("update.") + name);
    ASSERT_TRUE(update.predicate.valid());
    const Op& finite = maker(update.predicate);
    EXPECT_EQ(update.predicate, finite.outputs.back());
    EXPECT_EQ(module_.root(finite.inputs.at(static_cast<size_t>(finite.def->input_port("loss")))),
              module_.find_shared("loss_sum"))
        << "and a loss that is not finite leaves all of them alone";
    const Op& squares = maker(finite.inputs.back());
    EXPECT_THAT(squares.inputs, ::testing::ElementsAre(grad_read_by(update)));
  }
}

TEST_P(UpdateInBackward, CountsUpdateOnceLossIsFinite) {
  const Op& count = find(program_, "updates.next");
  const Op& finite = maker(count.predicate);
  EXPECT_EQ(module_.root(finite.inputs[0]), module_.find_shared("loss_sum"));
  for (const char* name : kParams) {
    const Op& update = find(program_, std::string("update.") + name);
    EXPECT_THAT(update.inputs, Contains(count.outputs[0])) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, UpdateInBackward,
    ::testing::Values(Case{"single", {}}, Case{"accum_2", {.accum = 2}},
                      Case{"accum_3", {.accum = 3}},
                      Case{"recompute",
                           {.recompute = parse_setting<RecomputePolicy>("full", "recompute")}},
                      Case{"bf16", {.precision = Dtype::bf16, .grad_dtype = Dtype::bf16}},
                      Case{"bf16_accum_2", {.accum = 2, .precision = Dtype::bf16}},
                      Case{"no_master", {.precision = Dtype::bf16, .master = false}}),
    [](const auto& p) { return p.param.name; });

TEST(UpdateInBackwardOfModels, RefusesOptionsNeedingGlobalNorm) {
  for (const Recipe& recipe :
       {Recipe{.update_in_backward = true, .clip = 1},
        Recipe{
            .loss_scale = {.start = 1024, .dynamic = true}, .update_in_backward = true, .clip = 0}})
    EXPECT_THROW(compile("two layers", two_linears, recipe), Error);
}

TEST(UpdateInBackwardOfModels, IsSoundForEveryFamily) {
  for (const char* name : {"gpt2", "bert-base", "snug-tiny", "mlp:64x4"}) {
    SCOPED_TRACE(name);
    for (const int64_t accum : {1, 3}) {
      verify(compile(name, Model::load(name).forward({.batch = 1, .seq = 16}),
                     {.accum = accum,
                      .precision = Dtype::bf16,
                      .optimizer = OptimizerKind::adamw8bit,
                      .update_in_backward = true,
                      .clip = 0}));
    }
  }
}

}  // namespace
}  // namespace snug
