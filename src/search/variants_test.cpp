// What a run leaves open, and that what is chosen is what runs.
#include "search/variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "search/plan_run.h"
#include "settings/testing/with_flags.h"

namespace snug {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Resolved run_of(const std::string& flags, const std::string& model = "snug-tiny") {
  Options o;
  o.model = model;
  o.seq = 64;
  return resolve(testing::with_flags(o, flags));
}

std::vector<std::string> open_in(const std::string& flags, const std::string& model = "snug-tiny") {
  std::vector<std::string> names;
  for (const Dimension& d : open_dimensions(run_of(flags, model))) names.push_back(d.name);
  return names;
}

std::vector<std::string> splits_of(const std::string& flags) {
  std::vector<std::string> found;
  const std::vector<Dimension> open = open_dimensions(run_of("--budget 1GiB " + flags));
  for (const Alternative& a : open.at(0).alternatives) found.push_back(flags_of(a.change));
  return found;
}

TEST(Choices, NothingIsOpenWithoutABudget) { EXPECT_THAT(open_in("--batch 4"), IsEmpty()); }

TEST(Choices, GivenChoiceIsPinned) {
  EXPECT_THAT(open_in("--budget 1GiB"), ElementsAre("micro-batch", "attention", "loss"));
  EXPECT_THAT(open_in("--budget 1GiB --accum 1 --loss whole"), ElementsAre("attention"));
  EXPECT_THAT(open_in("--budget 1GiB --attention flash --allow compress,optimizer"),
              ElementsAre("micro-batch", "loss", "optimizer", "compress"));
  EXPECT_THAT(open_in("--budget 1GiB --optimizer lion --allow all --accum 1", "mlp:64x2"),
              ElementsAre("precision", "compress"));
}

TEST(Choices, MicroBatchesFillStep) {
  EXPECT_THAT(splits_of("--batch 12"), ElementsAre("", "--batch 6 --accum 2", "--batch 3 --accum 4",
                                                   "--batch 2 --accum 6", "--batch 1 --accum 12"));
  EXPECT_THAT(splits_of("--batch 7"), ElementsAre("", "--batch 1 --accum 7"));
  EXPECT_THAT(splits_of("--batch 1"), ElementsAre(""));
  EXPECT_THAT(splits_of("--batch 4 --global-batch 10"),
              ElementsAre("", "--batch 10 --accum 1", "--batch 5 --accum 2", "--batch 3 --accum 4",
                          "--batch 2 --accum 5", "--batch 1 --accum 10"))
      << "the last may be short";
}

TEST(Choices, EveryVariantRunsSameStep) {
  const Resolved run = run_of("--budget 1GiB --batch 4 --global-batch 10 --allow all");
  const std::vector<Variant> variants = variants_of(run);
  EXPECT_TRUE(variants.front().change().empty());
  EXPECT_EQ(variants.front().effect, Effect::exact);
  for (const Variant& v : variants) {
    const std::string flags = flags_of(v.change());
    Options o = testing::with_flags(run.asked, flags);
    o.allow = {};
    const Resolved typed = resolve(o);
    EXPECT_EQ(typed.options.global_batch, 10) << flags;
    EXPECT_EQ(static_cast<const Settings&>(typed), v.settings) << flags;
  }
}

// On a GPU whole logits are one chunk of the same op, so with few tokens they are what is there.
TEST(Choices, UnchunkedLossIsTriedWhereDifferent) {
  const auto is_tried = [](const std::string& flags) {
    return std::ranges::any_of(variants_of(run_of("--accum 1 --attention flash " + flags)),
                               [](const Variant& v) { return !v.settings.build.chunked_loss; });
  };
  EXPECT_TRUE(is_tried("--batch 4 --budget 1GiB"));
  EXPECT_FALSE(is_tried("--batch 128 --gpu h200")) << "8192 tokens";
  EXPECT_TRUE(is_tried("--batch 129 --gpu h200"));
  EXPECT_TRUE(is_tried("--batch 4 --gpu h200 --loss whole")) << "as asked";
}

// However many micro-batches go through a layer together then.
TEST(Choices, RequestedOrderIsTried) {
  for (const char* asked : {"--batch 8 --accum 1", "--batch 2 --accum 4", "--batch 1 --accum 16"}) {
    const std::string options = " --micro-order vertical --offload optimizer --gpu h200";
    EXPECT_THAT(variants_of(run_of(asked + options)), Not(IsEmpty())) << asked;
  }
}

TEST(Choices, RequestedOffloadLeavesOrderOpen) {
  const std::string flags = "--gpu h200 --batch 2 --accum 4 --attention flash --loss whole ";
  EXPECT_THAT(open_in(flags + "--offload optimizer,master"), ElementsAre("micro-order"));
  EXPECT_THAT(open_in(flags + "--offload optimizer,master --micro-order horizontal"), IsEmpty());
  EXPECT_THAT(open_in(flags + "--offload none"), IsEmpty());
  const std::vector<Variant> found = variants_of(run_of(flags + "--offload optimizer,master"));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].settings.recipe.micro_group, 4);
  EXPECT_EQ(variants_of(run_of(flags + "--accum 1 --offload optimizer")).size(), 1U);
}

// Programs of many micro-batches are long, so at most eight go through a layer together.
TEST(Choices, ManyMicroBatchesGoThroughLayersInGroups) {
  const auto together = [](const std::string& accum) {
    std::set<int64_t> found;
    for (const Variant& v : variants_of(run_of("--gpu h200 --batch 1 --accum " + accum)))
      found.insert(v.settings.recipe.micro_group);
    return found;
  };
  EXPECT_THAT(together("8"), ElementsAre(1, 8));
  EXPECT_THAT(together("16"), ElementsAre(1, 8));
  EXPECT_THAT(together("12"), ElementsAre(1, 6));
  EXPECT_THAT(together("256"), ElementsAre(1, 8));
  EXPECT_THAT(together("13"), ElementsAre(1)) << "a prime has no groups";
}

TEST(Choices, GroupsAreTypedOnce) {
  for (const Variant& v : variants_of(run_of("--gpu h200 --batch 1 --accum 16")))
    for (const Change& change : v.changes)
      EXPECT_THAT(flags_of(change), Not(HasSubstr("vertical")));
}

// A copy of the state for each of several machines, in every stage.
TEST(Choices, CopiesOfSharedStateAreTriedOverMachines) {
  const auto copies = [](const std::string& gpu) {
    const std::vector<Variant> all = variants_of(run_of("--budget 40GiB --batch 32 --gpu " + gpu));
    return std::ranges::count_if(
        all, [](const Variant& v) { return v.settings.recipe.sharding.group == 8; });
  };
  EXPECT_EQ(copies("h100x8"), 0) << "one machine";
  EXPECT_EQ(copies("h100x12"), 0) << "one and a half";
  EXPECT_GT(copies("h100x16"), 0);
}

// What a key leaves out, two variants share: a setting that the search tries must be in one of them.
TEST(Choices, SearchedChoicesAreCacheKeys) {
  int searched = 0;
  for (const Technique& t : techniques()) {
    if (t.searched == nullptr) continue;
    ++searched;
    const Resolved run = run_of(t.dimension == "base"   ? "--batch 4 --lora r=2"
                                : t.dimension == "zero" ? "--batch 4 --ranks 2"
                                                        : "--batch 4");
    const Settings& with = changed(run, t.change);
    EXPECT_TRUE(body_key(with) != body_key(run) || update_key(with) != update_key(run)) << t.name;
  }
  EXPECT_GT(searched, 5);
}

// For each: a budget that is met only by what is allowed.
TEST(Choices, AllowedChoiceIsChosenAndRuns) {
  int chosen = 0;
  for (const char* allowed : {"optimizer", "precision", "compress", "precision,optimizer", "all"}) {
    SCOPED_TRACE(allowed);
    const std::string pins = "--batch 1 --accum 1 --attention flash --loss whole";
    const int64_t exact =
        joint_search(run_of("--budget 1GiB " + pins)).smallest_feasible()[Space::device];
    const std::string allow = fmt::format("{} --allow {} --budget", pins, allowed);
    const int64_t least = joint_search(run_of(allow + " 1GiB")).smallest_feasible()[Space::device];
    if (least == exact) continue;  // int8 is no smaller than recompute
    ++chosen;
    const PlannedRun planned = plan_run(run_of(fmt::format("{} {}", allow, exact - 1)));
    EXPECT_LT(arena_of(planned.plan), exact);
    EXPECT_FALSE(planned.changed.empty());
    EXPECT_EQ(text(planned.run.options.allow), allowed);
    Change all;
    for (const Change& change : planned.changed) all += change;
    const PlannedRun typed =
        plan_run(run_of(fmt::format("{} --budget {} {}", pins, exact - 1, flags_of(all))));
    EXPECT_EQ(arena_of(typed.plan), arena_of(planned.plan));
    EXPECT_EQ(typed.step_seconds, planned.step_seconds);
    EXPECT_EQ(typed.run.options.optimizer, planned.run.options.optimizer);
    EXPECT_EQ(typed.run.options.precision, planned.run.options.precision);
  }
  EXPECT_GE(chosen, 4) << "nearly all of them are smaller than what is exact";
}

TEST(Choices, RefusesContradictions) {
  const auto why = [](const std::string& flags) -> std::string {
    try {
      run_of(flags);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "it is taken";
  };
  EXPECT_THAT(why("--allow optimizer"), HasSubstr("nothing to choose it for"));
  EXPECT_THAT(why("--budget 1GiB --allow optimiser"), HasSubstr("optimiser"));
  EXPECT_THAT(why("--budget 1GiB --allow precision --precision bf16"),
              HasSubstr("--allow precision and --precision bf16"));
  EXPECT_THAT(why("--budget 1GiB --allow all --recompute auto:1MiB"),
              HasSubstr("--allow all and --recompute auto:1MiB"));
  EXPECT_THAT(why("--gpu h200 --device null"), HasSubstr("--gpu h200 and --device null"));
  EXPECT_EQ(why("--budget 1GiB --allow all --precision bf16"), "it is taken");
}

}  // namespace
}  // namespace snug
