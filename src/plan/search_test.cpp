// auto:BYTES on five models: meets its bytes, is no slower than any uniform policy that meets them,
// and never slower with more bytes.
#include "plan/recompute_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "models/model.h"
#include "plan/price.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

int64_t arena_of(const Plan& plan) { return plan.module.arena_bytes[0]; }

struct Case {
  const char* model;
  BuildOptions build;
  Recipe recipe = {};

  ForwardBuilder forward() const { return Model::load(model).forward(build); }
  RecomputeSearch search() const {
    return {model, forward(), recipe, nominal_model(recipe.backend)};
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

constexpr auto kStandard = ops::AttentionKind::standard;

class RecomputeSearchOf : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Models, RecomputeSearchOf,
    ::testing::Values(Case{"gpt2", {.batch = 2, .seq = 512, .attention = kStandard}},
                      Case{"qwen2.5-0.5b", {.batch = 4, .seq = 512}, {.accum = 2}},
                      Case{"llama-7b", {.batch = 1, .seq = 2048}},
                      Case{"bert-base", {.batch = 4, .seq = 512, .attention = kStandard}},
                      Case{"mlp:1024x24", {.batch = 4096}}));

TEST_P(RecomputeSearchOf, MeetsItsBytesAndIsNeverSlowerWithMore) {
  RecomputeSearch search = GetParam().search();
  const int64_t least = search.smallest_feasible();
  const int64_t most = search.needed_without();
  ASSERT_LT(least, most);
  double slower = std::numeric_limits<double>::infinity();
  constexpr int64_t kBudgets = 12;
  for (int64_t i = 0; i <= kBudgets; ++i) {
    const int64_t bytes = least + (most - least) * i / kBudgets;
    const RecomputeChoice choice = search.choose(bytes);
    SCOPED_TRACE(fmt::format("{} of {} bytes: {}", bytes, most, text(choice.policy)));
    EXPECT_LE(arena_of(choice.plan), bytes);
    EXPECT_LE(choice.extra_seconds, slower * (1 + 1e-9));
    EXPECT_GE(choice.extra_seconds, 0);
    EXPECT_EQ(choice.needed_without, most);
    slower = choice.extra_seconds;
  }
  EXPECT_EQ(slower, 0) << "with all the bytes there is nothing to recompute";
}

TEST_P(RecomputeSearchOf, IsNoSlowerThanTheBestUniformPolicyThatMeetsTheSameBytes) {
  const Case& c = GetParam();
  RecomputeSearch search = c.search();
  const int64_t least = search.smallest_feasible();
  const CostModel model = nominal_model(c.recipe.backend);
  for (const char* uniform :
       {"full", "sqrt", "attention", "every:2", "every:3", "every:5", "every:8", "ratio:0.1",
        "ratio:0.25", "ratio:0.4", "ratio:0.5", "ratio:0.7", "ratio:0.9", "ratio:1"}) {
    Recipe recipe = c.recipe;
    recipe.recompute = parse_recompute(uniform);
    Module module = compile(c.model, c.forward(), recipe);
    place(module);
    EXPECT_GE(module.arena_bytes[0], least) << uniform;
    const double seconds = price_of(module, model).step_seconds;
    const RecomputeChoice choice = search.choose(module.arena_bytes[0]);
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

TEST(RecomputeSearch, WorksWithEveryOtherTechnique) {
  for (const Recipe& recipe : recipes()) {
    RecomputeSearch search("tiny", tiny().forward(), recipe, nominal_model(Backend::cpu));
    const int64_t least = search.smallest_feasible();
    double slower = std::numeric_limits<double>::infinity();
    for (const int64_t part : {0, 1, 2, 3, 4}) {
      const int64_t bytes = least + (search.needed_without() - least) * part / 4;
      const RecomputeChoice choice = search.choose(bytes);
      EXPECT_LE(arena_of(choice.plan), bytes);
      EXPECT_LE(choice.step_seconds, slower * (1 + 1e-12)) << text(choice.policy);
      slower = choice.step_seconds;
    }
  }
}

TEST(RecomputeSearch, ExactlyTheSmallestIsFeasible) {
  RecomputeSearch search = tiny().search();
  const int64_t least = search.smallest_feasible();
  EXPECT_LE(arena_of(search.choose(least).plan), least);
  EXPECT_EQ(tiny().search().smallest_feasible(), least);
  try {
    tiny().search().choose(least - 1);
    FAIL() << "fits in less than the smallest";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_THAT(error.what(), HasSubstr(format_exact(least) + " bytes"));
    EXPECT_THAT(error.hint(), HasSubstr(fmt::format("auto:{}", least)));
  }
}

TEST(RecomputeSearch, EnoughBytesGiveNone) {
  const RecomputeSearch search = tiny().search();
  for (const int64_t bytes : {search.needed_without(), int64_t{1} << 50}) {
    const RecomputeChoice choice = tiny().search().choose(bytes);
    EXPECT_EQ(text(choice.policy), "none");
    EXPECT_EQ(choice.extra_seconds, 0);
    EXPECT_EQ(arena_of(choice.plan), search.needed_without());
  }
}

TEST(RecomputeSearch, TheChosenPolicyCompilesToTheChosenPlan) {
  RecomputeSearch search = tiny().search();
  const int64_t bytes = (search.smallest_feasible() + search.needed_without()) / 2;
  const RecomputeChoice choice = search.choose(bytes);
  const Plan again = make_plan("tiny", tiny().forward(), {.recompute = choice.policy});
  EXPECT_EQ(arena_of(again), arena_of(choice.plan));
  const Price price = price_of(again.module, nominal_model(Backend::cpu));
  EXPECT_EQ(price.step_seconds, choice.step_seconds);
  EXPECT_NEAR(price.repeat_seconds, choice.extra_seconds, 1e-6 * choice.step_seconds);
  EXPECT_EQ(text(tiny().search().choose(bytes).policy), text(choice.policy));
}

// What the search believes of a mixture is what placement finds, but for gaps.
TEST(RecomputeSearch, MeasuredWaysPredictWholePrograms) {
  const Recipe plain;
  const CostModel model = nominal_model(plain.backend);
  const auto costs_of = [&](const char* policy) {
    const Module module = compile("tiny", tiny().forward(), {.recompute = parse_recompute(policy)});
    const LayerCosts costs(module, model);
    int64_t below = costs.before().kept;
    int64_t room = costs.before().working;
    for (int32_t l = 0; l < costs.layers(); ++l) {
      room = std::max(room, below + costs.of(l, l).working);
      below += costs.of(l, l).kept;
    }
    return std::max({room, below + costs.after().working, costs.elsewhere()});
  };
  const Module none = compile("tiny", tiny().forward(), plain);
  const RecomputeOptions options(none, tiny().forward(), plain, model);
  for (const char* policy : {"none", "full", "every:2", "ratio:0.5", "attention"}) {
    const auto mixture = options.mixture_of(parse_recompute(policy));
    ASSERT_TRUE(mixture) << policy;
    const auto predicted = static_cast<double>(evaluate(options.layers(), *mixture).room);
    const auto real = static_cast<double>(costs_of(policy));
    EXPECT_NEAR(predicted, real, 0.02 * real) << policy;
  }
}

}  // namespace
}  // namespace snug
