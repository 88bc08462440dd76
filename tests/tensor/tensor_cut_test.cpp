// Where a rank's elements are in the whole (ir/tensor_cut.h), of the parameters that the pass cuts.
#include "ir/tensor_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compile/compile.h"
#include "models/model.h"
#include "support/small_run.h"

namespace snug {
namespace {

Module compiled(const std::string& family, int64_t tp, int64_t part) {
  Recipe recipe;
  recipe.mesh = {.tp = tp, .part = part};
  const Model model = Model::load(tests_dir() + "/tensor/" + family + ".json");
  return compile("cut", model.forward({.batch = 2, .seq = 8}), recipe, CompilePhase::differentiate);
}

bool is_parameter(const Value& value) {
  return value.category == Category::params && value.scope == Scope::persistent;
}

}  // namespace

// Each element is on one rank; of keys and values of fewer heads than ranks, on as many as repeat it.
TEST(TensorCut, PartsAreTheWhole) {
  for (const char* family : {"gpt2", "llama", "qwen2", "mistral", "bert"}) {
    for (const int64_t tp : {2, 4}) {
      const Module first = compiled(family, tp, 0);
      std::vector<Module> parts;
      for (int64_t part = 0; part < tp; ++part) parts.push_back(compiled(family, tp, part));
      for (size_t i = 0; i < first.values.size(); ++i) {
        const Value& value = first.values[i];
        if (!is_parameter(value) || !value.param->cut.on()) continue;
        SCOPED_TRACE(fmt::format("{} of {} over {}", value.name, family, tp));
        const TensorCut& cut = value.param->cut;
        std::vector<int> seen(static_cast<size_t>(cut.whole.elements()));
        for (int64_t part = 0; part < tp; ++part) {
          const Value& there = parts[static_cast<size_t>(part)].values[i];
          ASSERT_EQ(there.type, value.type);
          TensorCut derived = cut_of_part(cut, part);
          std::erase_if(derived.boxes, [](const Box& box) { return box.width == 0; });
          EXPECT_EQ(derived, there.param->cut);
          for_runs(there.param->cut, 0, there.type.shape.elements(), [&](const WholeRun& run) {
            for (int64_t e = 0; e < run.elements; ++e)
              ++seen[static_cast<size_t>(run.whole_first + e)];
          });
        }
        const auto repeats = static_cast<int>(cut.repeats);
        EXPECT_THAT(seen, ::testing::Each(::testing::AnyOf(1, repeats)));
        EXPECT_EQ(std::ranges::count(seen, 1) < std::ssize(seen), repeats > 1);
      }
    }
  }
}

// By the whole's ranges as by the rank's own, of any part of either.
TEST(TensorCut, RunsInRangesAreTheSame) {
  const Module module = compiled("gpt2", 2, 1);
  for (const Value& value : module.values) {
    if (!is_parameter(value) || !value.param->cut.on()) continue;
    const TensorCut& cut = value.param->cut;
    const int64_t n = value.type.shape.elements(), whole = cut.whole.elements();
    std::map<int64_t, int64_t> by_run, by_range;  // here -> in the whole
    const auto note = [](std::map<int64_t, int64_t>& at) {
      return [&](const WholeRun& run) {
        for (int64_t e = 0; e < run.elements; ++e) at[run.first + e] = run.whole_first + e;
      };
    };
    for (int64_t begin = 0; begin < n; begin += 1001)
      for_runs(cut, begin, std::min(n, begin + 1001), note(by_run));
    for (int64_t from = 0; from < whole; from += 777)
      for_runs_in(cut, n / 5, n, from, std::min(whole, from + 777), note(by_range));
    std::erase_if(by_run, [&](const auto& run) { return run.first < n / 5; });
    EXPECT_EQ(by_run, by_range) << value.name;
  }
}

}  // namespace snug
