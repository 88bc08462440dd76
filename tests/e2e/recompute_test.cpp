// Exact means exact: under every policy the loss curve has the same bits as without recompute,
// dropout included, and the plan is still the run.
#include <gtest/gtest.h>

#include "support/small_run.h"

namespace snug {
namespace {

struct Setting {
  const char* name;
  std::string model;
  BuildOptions build;
  int64_t accum = 1;
};

std::vector<Setting> settings() {
  const std::string dir = tests_dir() + "/parity/";
  constexpr auto standard = ops::AttentionKind::standard;
  constexpr auto flash = ops::AttentionKind::flash;
  return {
      {"gpt2_standard",
       dir + "gpt2",
       {.batch = 2, .seq = 19, .attention = standard, .dropout = 0.1}},
      {"gpt2_flash", dir + "gpt2", {.batch = 2, .seq = 19, .attention = flash, .dropout = 0.1}, 2},
      {"llama_standard",
       dir + "llama",
       {.batch = 2, .seq = 17, .attention = standard, .dropout = 0.1},
       3},
      {"llama_flash", dir + "llama", {.batch = 2, .seq = 17, .attention = flash}},
      {"bert_standard",
       dir + "bert",
       {.batch = 2, .seq = 13, .attention = standard, .dropout = 0.1}},
      {"mlp", "mlp:24x3", {.batch = 4, .seq = 1}},
  };
}

std::vector<float> curve(SmallRun& run) {
  std::vector<float> losses;
  for (int i = 0; i < 10; ++i) losses.push_back(run.step());
  return losses;
}

class Recompute : public testing::TestWithParam<Setting> {};

TEST_P(Recompute, EveryPolicyHasTheSameBits) {
  const Setting& s = GetParam();
  SmallRun plain(s.model, s.build, {.accum = s.accum});
  const std::vector<float> want = curve(plain);
  for (const char* policy : {"full", "every:2", "sqrt", "ratio:0.5", "attention", "list:1"}) {
    SCOPED_TRACE(policy);
    SmallRun run(s.model, s.build, {.accum = s.accum, .recompute = parse_recompute(policy)});
    EXPECT_EQ(curve(run), want);
    EXPECT_EQ(run.executor().measured_bytes(), run.executor().planned_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Recompute, testing::ValuesIn(settings()),
                         [](const auto& p) { return std::string(p.param.name); });

// Activations and repeats at their own peak, in bytes.
int64_t peak_of(const char* policy, const BuildOptions& build, const std::string& model) {
  const Plan plan =
      make_plan("m", Model::load(model).forward(build), {.recompute = parse_recompute(policy)});
  int64_t peak = 0;
  for (size_t p = 0; p < plan.module.programs.size(); ++p) {
    for (const CategoryBytes& live :
         timeline(plan.module, static_cast<int32_t>(p), Space::device)) {
      peak = std::max(peak, live[static_cast<size_t>(Category::activations)] +
                                live[static_cast<size_t>(Category::recompute)]);
    }
  }
  return peak;
}

TEST(RecomputeBytes, GoDownAsTheyShould) {
  const std::string model = tests_dir() + "/e2e/llama-24x1024.json";
  const BuildOptions build{.batch = 8, .seq = 1024, .attention = ops::AttentionKind::standard};
  const auto none = static_cast<double>(peak_of("none", build, model));
  EXPECT_LE(static_cast<double>(peak_of("full", build, model)), 0.12 * none);
  EXPECT_LE(static_cast<double>(peak_of("sqrt", build, model)), 0.25 * none);
}

}  // namespace
}  // namespace snug
