// The order of micro-batches: all of them through a layer before the next layer is the same sum in
// the same order, unless a parameter is used at both ends of the model.
#include <gtest/gtest.h>
#include <omp.h>

#include "runtime/null_executor.h"
#include "settings/parse.h"
#include "support/small_run.h"

namespace snug {
namespace {

struct OrderCase {
  const char* family;
  bool tied;  // gradients of both ends add up in another order
  bool packed = false;
};

class MicroOrder : public ::testing::TestWithParam<OrderCase> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

TEST_P(MicroOrder, IsExact) {
  const std::string model = tests_dir() + "/parity/" + GetParam().family;
  const BuildOptions build{.batch = 2, .seq = 12, .packed = GetParam().packed, .dropout = 0.1};
  for (const bool in_backward : {false, true}) {
    for (const char* recompute : {"none", "full"}) {
      Recipe recipe{.accum = 6,
                    .recompute = parse_setting<RecomputePolicy>(recompute, "recompute")};
      recipe.update_in_backward = in_backward;
      if (in_backward) recipe.clip = 0;
      const std::vector<float> want = SmallRun(model, build, recipe).losses(4);
      for (const int64_t group : {2, 3, 6}) {
        SCOPED_TRACE(fmt::format("groups of {}, recompute {}, update in backward {}", group,
                                 recompute, in_backward));
        recipe.micro_group = group;
        SmallRun run(model, build, recipe);
        const std::vector<float> losses = run.losses(4);
        for (size_t i = 0; i < want.size(); ++i) {
          if (GetParam().tied) {
            EXPECT_NEAR(losses[i], want[i], 1e-5F * want[i]);
          } else {
            EXPECT_EQ(losses[i], want[i]);
          }
        }
        EXPECT_EQ(run.executor().measured_bytes(), run.executor().planned_bytes());
        EXPECT_EQ(run_null(run.module()).high_water[0], run.executor().planned_bytes());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, MicroOrder,
                         ::testing::Values(OrderCase{"llama", false}, OrderCase{"mistral", false},
                                           OrderCase{"gpt2", true}, OrderCase{"bert", true},
                                           OrderCase{"gemma3", true}, OrderCase{"olmo2", false},
                                           OrderCase{"gpt_neox", false},
                                           OrderCase{"llama", false, /*packed=*/true},
                                           OrderCase{"gpt2", true, /*packed=*/true}),
                         [](const auto& p) {
                           return std::string(p.param.family) + (p.param.packed ? "_packed" : "");
                         });

}  // namespace
}  // namespace snug
