// The search on five models. With recompute alone open: it meets its bytes, is no slower than any
// uniform policy that meets them, and never slower with more bytes. With more open: the same, and
// no slower than any variant.
#include "search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "compile/compile.h"
#include "cost/step_cost.h"
#include "models/model.h"
#include "settings/parse.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

int64_t arena_of(const Plan& plan) { return plan.module.arena_bytes[0]; }

struct Case {
  const char* model;
  BuildOptions build;
  Recipe recipe = {};

  ForwardBuilder forward() const { return Model::load(model).forward(build); }
  Variant variant() const {
    Recipe open = recipe;
    open.recompute.kind = RecomputePolicy::Kind::automatic;
    const Model whole = Model::load(model);
    const Stack stack{.layers = static_cast<int32_t>(whole.config().L),
                      .forward = [whole, build = build](int32_t layers) {
                        return whole.with_layers(layers).forward(build);
                      }};
    return {.stack = stack,
            .settings = {.build = build, .recipe = open},
            .cost_model = nominal_model(recipe.backend)};
  }
  PlanSearch search() const { return {model, {variant()}}; }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

constexpr auto kStandard = ops::AttentionKind::standard;

class PlanSearchOf : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Models, PlanSearchOf,
    ::testing::Values(Case{"gpt2", {.batch = 2, .seq = 512, .attention = kStandard}},
                      Case{"qwen2.5-0.5b", {.batch = 4, .seq = 512}, {.accum = 2}},
                      Case{"llama-7b", {.batch = 1, .seq = 2048}},
                      Case{"bert-base", {.batch = 4, .seq = 512, .attention = kStandard}},
                      Case{"mlp:1024x24", {.batch = 4096}}));

TEST_P(PlanSearchOf, MeetsBudgetAndIsMonotone) {
  PlanSearch search = GetParam().search();
  const int64_t least = search.smallest_feasible()[Space::device];
  const int64_t most = search.needed_without();
  ASSERT_LT(least, most);
  double slower = std::numeric_limits<double>::infinity();
  constexpr int64_t kBudgets = 12;
  for (int64_t i = 0; i <= kBudgets; ++i) {
    const int64_t bytes = least + (most - least) * i / kBudgets;
    const Choice choice = search.choose(device_limit(bytes));
    SCOPED_TRACE(fmt::format("{} of {} bytes: {}", bytes, most, text(choice.policy)));
    EXPECT_LE(arena_of(choice.plan), bytes);
    EXPECT_LE(choice.extra_seconds, slower * (1 + 1e-9));
    EXPECT_GE(choice.extra_seconds, 0);
    EXPECT_EQ(choice.needed_without, most);
    slower = choice.extra_seconds;
  }
  EXPECT_EQ(slower, 0) << "with all the bytes there is nothing to recompute";
}

TEST_P(PlanSearchOf, IsAsFastAsBestUniformPolicyInSameBytes) {
  const Case& c = GetParam();
  PlanSearch search = c.search();
  const int64_t least = search.smallest_feasible()[Space::device];
  const CostModel model = nominal_model(c.recipe.backend);
  for (const char* uniform :
       {"full", "sqrt", "attention", "every:2", "every:3", "every:5", "every:8", "ratio:0.1",
        "ratio:0.25", "ratio:0.4", "ratio:0.5", "ratio:0.7", "ratio:0.9", "ratio:1"}) {
    Recipe recipe = c.recipe;
    recipe.recompute = parse_setting<RecomputePolicy>(uniform, "recompute");
    Module module = compile(c.model, c.forward(), recipe);
    place(module);
    EXPECT_GE(module.arena_bytes[0], least) << uniform;
    const double seconds = step_cost(module, model).step_seconds;
    const Choice choice = search.choose(device_limit(module.arena_bytes[0]));
    EXPECT_LE(arena_of(choice.plan), module.arena_bytes[0]) << uniform;
    EXPECT_LE(choice.step_seconds, seconds * (1 + 1e-12))
        << uniform << " / " << text(choice.policy);
  }
}

Case tiny() { return {"snug-tiny", {.batch = 2, .seq = 256}}; }

std::vector<Recipe> recipes() {
  return {{.accum = 3},
          {.compress = CompressKind::int8},
          {.precision = Dtype::bf16},
          {.optimizer = OptimizerKind::adamw8bit},
          {.update_in_backward = true, .clip = 0}};
}

TEST(PlanSearch, WorksWithEveryOtherTechnique) {
  for (const Recipe& recipe : recipes()) {
    Case c = tiny();
    c.recipe = recipe;
    PlanSearch search = c.search();
    const int64_t least = search.smallest_feasible()[Space::device];
    double slower = std::numeric_limits<double>::infinity();
    for (const int64_t part : {0, 1, 2, 3, 4}) {
      const int64_t bytes = least + (search.needed_without() - least) * part / 4;
      const Choice choice = search.choose(device_limit(bytes));
      EXPECT_LE(arena_of(choice.plan), bytes);
      EXPECT_LE(choice.step_seconds, slower * (1 + 1e-12)) << text(choice.policy);
      slower = choice.step_seconds;
    }
  }
}

TEST(PlanSearch, ExactlyTheSmallestIsFeasible) {
  PlanSearch search = tiny().search();
  const int64_t least = search.smallest_feasible()[Space::device];
  EXPECT_LE(arena_of(search.choose(device_limit(least)).plan), least);
  EXPECT_EQ(tiny().search().smallest_feasible()[Space::device], least);
  try {
    tiny().search().choose(device_limit(least - 1));
    FAIL() << "fits in less than the smallest";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_THAT(error.what(), HasSubstr(format_exact(least) + " bytes"));
    EXPECT_THAT(error.hint(), HasSubstr(fmt::format("auto:{}", least)));
  }
}

TEST(PlanSearch, EnoughBytesGiveNone) {
  PlanSearch search = tiny().search();
  for (const int64_t bytes : {search.needed_without(), int64_t{1} << 50}) {
    const Choice choice = tiny().search().choose(device_limit(bytes));
    EXPECT_EQ(text(choice.policy), "none");
    EXPECT_EQ(choice.extra_seconds, 0);
    EXPECT_EQ(arena_of(choice.plan), search.needed_without());
  }
}

TEST(PlanSearch, ChosenPolicyCompilesToChosenPlan) {
  PlanSearch search = tiny().search();
  const int64_t bytes = (search.smallest_feasible()[Space::device] + search.needed_without()) / 2;
  const Choice choice = search.choose(device_limit(bytes));
  const Plan again = make_plan("tiny", tiny().forward(), {.recompute = choice.policy});
  EXPECT_EQ(arena_of(again), arena_of(choice.plan));
  const StepCost cost = step_cost(again.module, nominal_model(Backend::cpu));
  EXPECT_EQ(cost.step_seconds, choice.step_seconds);
  EXPECT_NEAR(cost.repeat_seconds, choice.extra_seconds, 1e-6 * choice.step_seconds);
  EXPECT_EQ(text(tiny().search().choose(device_limit(bytes)).policy), text(choice.policy));
}

// What the search believes of an assignment is what placement finds, but for gaps.
TEST(PlanSearch, MeasuredPoliciesPredictPrograms) {
  const Recipe plain;
  const CostModel model = nominal_model(plain.backend);
  const auto costs_of = [&](const char* policy) {
    const Module module =
        compile("tiny", tiny().forward(),
                {.recompute = parse_setting<RecomputePolicy>(policy, "recompute")});
    const LayerCosts costs(module, model);
    int64_t below = costs.before().kept;
    int64_t transient = costs.before().working;
    for (int32_t l = 0; l < costs.layers(); ++l) {
      transient = std::max(transient, below + costs.of(l, l).working);
      below += costs.of(l, l).kept;
    }
    return std::max({transient, below + costs.after().working, costs.other_programs()});
  };
  const LayerPolicyCosts options(tiny().variant());
  const LayerCosts ends(compile("tiny", tiny().forward(), plain), model);
  LayerPolicies layers = options.between(ends.before(), ends.after());
  layers.other_programs = ends.other_programs();
  for (const char* policy : {"none", "full", "every:2", "ratio:0.5", "attention"}) {
    const auto assignment =
        options.assignment_of(parse_setting<RecomputePolicy>(policy, "recompute"));
    ASSERT_TRUE(assignment) << policy;
    const auto predicted = static_cast<double>(evaluate(layers, *assignment).transient);
    const auto real = static_cast<double>(costs_of(policy));
    EXPECT_NEAR(predicted, real, 0.02 * real) << policy;
  }
}

// The search asks in the order of these times: were one too high, a faster plan could be missed.
TEST(PlanSearch, TimeEstimateOfPoliciesMatchesPlan) {
  constexpr size_t kEvery = 7;
  for (const Recipe& recipe : recipes()) {
    Case c = tiny();
    c.recipe = recipe;
    const Variant variant = c.variant();
    const Estimate estimate = Estimates().of(variant);
    const PolicyAssignments assignments(std::make_shared<const LayerPolicyCosts>(variant),
                                        estimate.before, estimate.after);
    for (size_t i = 0; i < assignments.all().size(); i += kEvery) {
      const PolicyAssignment& assignment = assignments.all()[i];
      Recipe chosen = recipe;
      chosen.recompute = assignments.policy_of(assignment);
      const double real =
          step_cost(compile(c.model, c.forward(), chosen), variant.cost_model).step_seconds;
      const double believed =
          estimate.seconds + static_cast<double>(recipe.accum) * assignment.point.seconds;
      EXPECT_LE(believed, real * (1 + 1e-12)) << text(chosen.recompute);
      EXPECT_NEAR(believed, real, 1e-6 * real) << text(chosen.recompute);
    }
  }
}

// Micro-batches of 8 sequences, all kinds of attention, three kinds of loss and two optimizers.
std::vector<Case> joint(const char* model, int64_t seq) {
  std::vector<Case> cases;
  for (const int64_t batch : {8, 4, 2, 1}) {
    for (const auto attention : {ops::AttentionKind::flash, kStandard, ops::AttentionKind::chunked})
      for (const int64_t chunk : {int64_t{0}, int64_t{64}, int64_t{1024}})
        for (const auto optimizer : {OptimizerKind::adamw, OptimizerKind::adamw8bit})
          cases.push_back({model,
                           {.batch = batch,
                            .seq = seq,
                            .attention = attention,
                            .chunked_loss = chunk > 0,
                            .loss_chunk = std::max<int64_t>(chunk, 1)},
                           {.accum = 8 / batch, .optimizer = optimizer}});
  }
  return cases;
}

PlanSearch search_among(const std::vector<Case>& cases) {
  std::vector<Variant> variants;
  for (const Case& c : cases) {
    variants.push_back(c.variant());
    const BuildOptions& b = c.build;
    variants.back().picks = {static_cast<int>(b.batch), static_cast<int>(b.attention),
                             static_cast<int>(b.chunked_loss ? b.loss_chunk : 0),
                             static_cast<int>(c.recipe.optimizer)};
  }
  return {cases.front().model, std::move(variants)};
}

class JointSearchOf : public ::testing::TestWithParam<std::pair<const char*, int64_t>> {};

INSTANTIATE_TEST_SUITE_P(Models, JointSearchOf,
                         ::testing::Values(std::pair{"snug-tiny", int64_t{128}},
                                           std::pair{"gpt2", int64_t{256}},
                                           std::pair{"bert-base", int64_t{128}},
                                           std::pair{"qwen2.5-0.5b", int64_t{128}}));

TEST_P(JointSearchOf, FitsAndIsNeverSlowerWithMore) {
  PlanSearch search = search_among(joint(GetParam().first, GetParam().second));
  const int64_t least = search.smallest_feasible()[Space::device];
  EXPECT_FALSE(search.fastest(device_limit(least - 1)));
  const int64_t most = search.needed_without(0) * 2;
  double slower = std::numeric_limits<double>::infinity();
  constexpr int64_t kBudgets = 50;
  for (int64_t i = 0; i <= kBudgets; ++i) {
    const int64_t bytes = least + (most - least) * i / kBudgets;
    const auto choice = search.fastest(device_limit(bytes));
    ASSERT_TRUE(choice) << bytes;
    SCOPED_TRACE(fmt::format("{} bytes: {}, {}", bytes,
                             fmt::join(search.variants()[choice->variant].picks, " "),
                             text(choice->policy)));
    EXPECT_LE(arena_of(choice->plan), bytes);
    EXPECT_EQ(parse_setting<RecomputePolicy>(text(choice->policy), "recompute"), choice->policy);
    EXPECT_LE(choice->step_seconds, slower * (1 + 1e-12));
    const Recipe& recipe = search.variants()[choice->variant].settings.recipe;
    EXPECT_EQ(8 / recipe.accum, search.variants()[choice->variant].picks[0]);
    slower = choice->step_seconds;
  }
}

// Every variant with every uniform policy, compiled, placed and costed.
TEST(PlanSearch, IsAsFastAsAnyUniformPolicy) {
  const std::vector<Case> cases = joint("snug-tiny", 128);
  PlanSearch search = search_among(cases);
  const CostModel model = nominal_model(Backend::cpu);
  for (const Case& c : cases) {
    for (const char* policy : {"none", "full", "every:2", "ratio:0.5", "attention"}) {
      Recipe recipe = c.recipe;
      recipe.recompute = parse_setting<RecomputePolicy>(policy, "recompute");
      Module module = compile(c.model, c.forward(), recipe);
      place(module);
      const auto choice = search.fastest(device_limit(module.arena_bytes[0]));
      ASSERT_TRUE(choice);
      EXPECT_LE(choice->step_seconds, step_cost(module, model).step_seconds * (1 + 1e-9))
          << policy << " / "
          << fmt::format("{}", fmt::join(search.variants()[choice->variant].picks, " "));
    }
  }
}

TEST(PlanSearch, ReportsWhyEachNeighbourWasNotChosen) {
  PlanSearch search = search_among(joint("snug-tiny", 128));
  const int64_t bytes = (search.smallest_feasible()[Space::device] + search.needed_without(0)) / 2;
  const auto choice = search.fastest(device_limit(bytes));
  ASSERT_TRUE(choice);
  const auto others = search.runners_up(*choice, device_limit(bytes));
  EXPECT_EQ(others.size(), 3U + 2U + 2U + 1U);
  for (const RunnerUp& other : others) {
    EXPECT_FALSE(other.why.empty()) << other.name;
    if (other.bytes > bytes) {
      EXPECT_THAT(other.why, HasSubstr("more than the budget"));
    } else {
      EXPECT_GE(other.seconds, choice->step_seconds * (1 - 1e-12));
    }
  }
}

TEST(PlanSearch, PinnedPolicyIsKept) {
  Variant pinned = tiny().variant();
  pinned.settings.recipe.recompute = parse_setting<RecomputePolicy>("every:2", "recompute");
  PlanSearch search("tiny", {pinned});
  const Plan plain = make_plan("tiny", tiny().forward(), pinned.settings.recipe);
  const auto choice = search.fastest(device_limit(arena_of(plain)));
  ASSERT_TRUE(choice);
  EXPECT_EQ(text(choice->policy), "every:2");
  EXPECT_EQ(arena_of(choice->plan), arena_of(plain));
  EXPECT_FALSE(search.fastest(device_limit(arena_of(plain) - 1)));
}

}  // namespace
}  // namespace snug
