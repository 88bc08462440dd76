// The rungs, their changes, and the handling of one that does not fit. On the null device: nothing
// is computed.
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "snug/set_option.h"
#include "snug/snug.h"
#include "techniques/techniques.h"

namespace snug {
namespace {

using ::testing::Contains;
using ::testing::Not;

Options small(const std::string& model) {
  Options o;
  o.model = model;
  o.batch = 4;
  o.seq = 32;
  set_option(o, "device", "null");
  return o;
}

std::vector<std::string> names(const LadderReport& report) {
  std::vector<std::string> found;
  for (const Rung& rung : report.rungs) found.push_back(rung.name);
  return found;
}

std::string change_of(const LadderReport& report, const std::string& name) {
  const auto rung = std::ranges::find(report.rungs, name, &Rung::name);
  return rung == report.rungs.end() ? "no such rung" : rung->change;
}

TEST(Ladder, StartsAtBaselineEndsWithAll) {
  const LadderReport report = ladder(small("snug-tiny"), {});
  EXPECT_EQ(names(report).front(), "baseline");
  EXPECT_EQ(names(report).back(), "all together");
  const auto rows = std::ranges::count_if(
      techniques(), [](const Technique& t) { return t.on_ladder != OnLadder::no; });
  EXPECT_EQ(std::ssize(report.rungs), rows + 3) << "the baseline, micro-batches, and all together";
  EXPECT_EQ(report.sequences, 4);
  for (const Rung& rung : report.rungs) {
    EXPECT_EQ(rung.measured_bytes, rung.planned_bytes) << rung.name;
    EXPECT_FALSE(rung.loss || rung.step_seconds) << "the null device computes nothing";
    EXPECT_LE(report.rungs.back().planned_bytes, rung.planned_bytes) << rung.name;
  }
}

TEST(Ladder, SeveralRanksAreRefused) {
  Options o = small("snug-tiny");
  o.ranks = 2;
  try {
    ladder(o, {});
    FAIL() << "2 ranks";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), "ladder over 2 ranks: it trains in one process");
  }
}

TEST(Ladder, InapplicableTechniqueHasNoRung) {
  const LadderReport report = ladder(small("mlp:16x3"), {});
  for (const char* name :
       {"flash attention", "chunked attention", "recompute attention", "chunked loss"})
    EXPECT_THAT(names(report), Not(Contains(name)));
  EXPECT_THAT(names(report), Contains("recompute every layer"));
  EXPECT_EQ(report.rungs.back().change.find("--attention"), std::string::npos);
}

TEST(Ladder, UserTechniquesKeepBaseline) {
  const auto baseline_of = [](const Options& o) { return ladder(o, {}).rungs[0].planned_bytes; };
  const Options sequences = small("snug-tiny"), no_sequences = small("mlp:16x3");
  const int64_t with = baseline_of(sequences), without = baseline_of(no_sequences);
  for (const Technique& t : techniques()) {
    if (t.on_ladder == OnLadder::no) continue;
    const auto row = std::ranges::find(dimensions(), t.dimension, &DimensionRow::name);
    const bool of_sequences = row != dimensions().end() && row->of_sequences;
    const Options used = changed(of_sequences ? sequences : no_sequences, t.change);
    EXPECT_EQ(baseline_of(used), of_sequences ? with : without)
        << t.name << ": the baseline of verbs/ladder.cpp does not turn it off";
  }
  Options larger = no_sequences;
  larger.batch = 8;
  EXPECT_GT(baseline_of(larger), without);
}

TEST(Ladder, MicroBatchesSeeTheSameSequences) {
  Options o = small("mlp:16x3");
  o.batch = 8;
  EXPECT_EQ(change_of(ladder(o, {}), "micro-batches"), "--batch 2 --accum 4");
  o.accum = 3;
  EXPECT_EQ(change_of(ladder(o, {}), "micro-batches"), "--batch 2 --accum 12");
  o.accum = 0;
  o.global_batch = 21;
  EXPECT_EQ(change_of(ladder(o, {}), "micro-batches"), "--batch 2 --accum 11");
  o.batch = 7;
  EXPECT_THAT(names(ladder(o, {})), Not(Contains("micro-batches")));
}

TEST(Ladder, LionHasItsOwnLearningRate) {
  Options o = small("mlp:16x3");
  o.lr = 1e-3;
  EXPECT_EQ(change_of(ladder(o, {}), "lion"), "--optimizer lion --lr 0.0002");
}

TEST(Ladder, ContinuesAfterRungThatDoesNotFit) {
  Options o = small("snug-tiny");
  std::vector<int64_t> planned;
  for (const Rung& rung : ladder(o, {}).rungs) planned.push_back(rung.planned_bytes);
  o.budget = {planned.front() - 1};
  size_t seen = 0;
  const LadderReport report = ladder(
      o, {.planned = [&](const LadderReport& r) { EXPECT_EQ(r.rungs.size(), planned.size()); },
          .started = [](const Rung& rung) { EXPECT_FALSE(rung.measured_bytes); },
          .measured = [&](const Rung&) { ++seen; }});
  EXPECT_EQ(seen, planned.size());
  for (size_t i = 0; i < planned.size(); ++i) {
    const Rung& rung = report.rungs[i];
    EXPECT_EQ(rung.planned_bytes, planned[i]) << rung.name;
    EXPECT_EQ(rung.fits, planned[i] < planned.front()) << rung.name;
    EXPECT_EQ(rung.measured_bytes.has_value(), rung.fits) << rung.name;
  }
  EXPECT_FALSE(report.rungs.front().fits);
  EXPECT_TRUE(report.rungs.back().fits);
}

}  // namespace
}  // namespace snug
