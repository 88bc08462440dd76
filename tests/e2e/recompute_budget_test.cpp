// Whatever the search chooses for a number of bytes, from all that is needed down to the smallest
// feasible, the loss curve keeps its bits and the run stays inside the bytes.
#include <gtest/gtest.h>

#include "search/search.h"
#include "search/variants.h"
#include "support/small_run.h"

namespace snug {
namespace {

struct BudgetRun {
  const char* name;
  std::string model;
  BuildOptions build;
  Recipe recipe = {};
};

std::vector<BudgetRun> budget_runs() {
  const std::string dir = tests_dir() + "/parity/";
  constexpr auto standard = ops::AttentionKind::standard;
  return {
      {"gpt2_standard",
       dir + "gpt2",
       {.batch = 2, .seq = 19, .attention = standard, .dropout = 0.1}},
      {"llama_flash", dir + "llama", {.batch = 2, .seq = 17, .dropout = 0.1}, {.accum = 2}},
      {"bert_flash", dir + "bert", {.batch = 2, .seq = 13, .dropout = 0.1}},
      {"mlp", "mlp:24x9", {.batch = 64, .seq = 1}},
  };
}

std::vector<float> curve(const BudgetRun& s, const Recipe& recipe, int64_t bytes) {
  SmallRun run(s.model, s.build, recipe);
  EXPECT_LE(run.executor().planned_bytes(), bytes);
  std::vector<float> losses;
  for (int i = 0; i < 10; ++i) losses.push_back(run.step());
  EXPECT_EQ(run.executor().measured_bytes(), run.executor().planned_bytes());
  return losses;
}

class RecomputeBudget : public ::testing::TestWithParam<BudgetRun> {};

TEST_P(RecomputeBudget, KeepsBitsAndBytes) {
  const BudgetRun& s = GetParam();
  Recipe open = s.recipe;
  open.recompute.kind = RecomputePolicy::Kind::automatic;
  PlanSearch search("m", {variant_of(Model::load(s.model), {.build = s.build, .recipe = open},
                                     nominal_model(Backend::cpu))});
  const int64_t least = search.smallest_feasible()[Space::device];
  const int64_t most = search.needed_without();
  const std::vector<float> want = curve(s, s.recipe, most);
  for (const int64_t part : {0, 1, 2, 3}) {
    const int64_t bytes = least + (most - least) * part / 4;
    Recipe recipe = s.recipe;
    recipe.recompute = search.choose(device_limit(bytes)).policy;
    SCOPED_TRACE(text(recipe.recompute));
    EXPECT_EQ(curve(s, recipe, bytes), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, RecomputeBudget, ::testing::ValuesIn(budget_runs()),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace snug
