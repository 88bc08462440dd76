#include "data/sample_rows.h"

#include <map>
#include <numeric>

#include "base/rng.h"
#include "data/data.h"
#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;
using testing::TempDir;

using Words = std::vector<int32_t>;
constexpr int32_t kNone = kIgnoredTarget;

struct Row {
  Words tokens, targets, starts;
};

class SampleRowsTest : public ::testing::Test {
 protected:
  SampleRows rows(const std::vector<Words>& samples, SampleRowOptions options) {
    SampleFileWriter out(dir_ / "a.samples", 1000);
    for (const Words& words : samples) out.write(words);
    out.commit({.lines = static_cast<int64_t>(samples.size())});
    if (options.V == 0) options.V = 1000;
    return {SampleFile::open(dir_ / "a.samples"), "a.jsonl", options};
  }
  static Row row_of(const SampleRows& rows, int64_t row) {
    const auto T = static_cast<size_t>(rows.T());
    Row out{Words(T, 77), Words(T, 77), Words(T, 77)};
    rows.fill(row, {.tokens = out.tokens, .targets = out.targets, .starts = out.starts});
    return out;
  }
  static Words learned(int32_t first, int32_t count) {
    Words words(static_cast<size_t>(count));
    std::iota(words.begin(), words.end(), first);
    return words;
  }

  TempDir dir_;
};

TEST_F(SampleRowsTest, OneSampleARow) {
  const SampleRows r =
      rows({{1, 2, 3}, {not_learned(4), not_learned(5), 6, not_learned(7)}}, {.T = 4});
  ASSERT_EQ(r.count(), 2);
  const Row first = row_of(r, 0), second = row_of(r, 1);
  EXPECT_EQ(first.tokens, (Words{1, 2, 0, 0}));
  EXPECT_EQ(first.targets, (Words{2, 3, kNone, kNone}));
  EXPECT_EQ(first.starts, (Words{0, 0, 2, 2}));
  EXPECT_EQ(second.tokens, (Words{4, 5, 0, 0})) << "nothing after the last that is learned";
  EXPECT_EQ(second.targets, (Words{kNone, 6, kNone, kNone}));
  EXPECT_EQ(r.targets(0), 2);
  EXPECT_EQ(r.targets(1), 1);
  EXPECT_EQ(r.text(), "a.jsonl (2 samples, 7 tokens) = 2 rows of 4, 50% filled, 3 tokens to learn");
}

TEST_F(SampleRowsTest, WholeSampleIsLearnedOnRequest) {
  const SampleRows r =
      rows({{not_learned(4), not_learned(5), 6, not_learned(7)}}, {.T = 4, .learn_all = true});
  EXPECT_EQ(row_of(r, 0).targets, (Words{5, 6, 7, kNone}));
  EXPECT_EQ(r.targets(0), 3);
}

TEST_F(SampleRowsTest, FirstFitPacking) {
  // Inputs: 5, 4, 3, 2, 1 in rows of 8.
  const SampleRows r =
      rows({learned(100, 6), learned(200, 5), learned(300, 4), learned(400, 3), learned(500, 2)},
           {.T = 8, .pack = true});
  ASSERT_EQ(r.count(), 2);
  const Row first = row_of(r, 0), second = row_of(r, 1);
  EXPECT_EQ(first.tokens, (Words{100, 101, 102, 103, 104, 300, 301, 302}));
  EXPECT_EQ(first.targets, (Words{101, 102, 103, 104, 105, 301, 302, 303}));
  EXPECT_EQ(first.starts, (Words{0, 0, 0, 0, 0, 5, 5, 5}));
  EXPECT_EQ(second.tokens, (Words{200, 201, 202, 203, 400, 401, 500, 0}));
  EXPECT_EQ(second.targets, (Words{201, 202, 203, 204, 401, 402, 501, kNone}));
  EXPECT_EQ(second.starts, (Words{0, 0, 0, 0, 4, 4, 6, 7}));
  EXPECT_EQ(r.targets(0), 8);
  EXPECT_EQ(r.targets(1), 7);
}

TEST_F(SampleRowsTest, LongSamplesAreTruncatedSplitOrRefused) {
  const std::vector<Words> samples{learned(1, 3), learned(10, 10)};
  const SampleRows cut = rows(samples, {.T = 4});
  EXPECT_EQ(cut.count(), 2);
  EXPECT_EQ(row_of(cut, 1).targets, (Words{11, 12, 13, 14}));
  EXPECT_THAT(cut.text(), HasSubstr("; 1 sample longer than 4 truncated"));

  const SampleRows split = rows(samples, {.T = 4, .longer = LongSamples::split});
  ASSERT_EQ(split.count(), 4);
  EXPECT_EQ(row_of(split, 2).tokens, (Words{14, 15, 16, 17}));
  EXPECT_EQ(row_of(split, 2).targets, (Words{15, 16, 17, 18}));
  EXPECT_EQ(row_of(split, 3).tokens, (Words{18, 0, 0, 0}));
  EXPECT_EQ(row_of(split, 3).targets, (Words{19, kNone, kNone, kNone}));
  EXPECT_THAT(split.text(), HasSubstr("; 1 sample longer than 4 split"));

  expect_error(ExitCode::bad_input,
               "a.jsonl: 1 of 2 samples is longer than --seq 4: the first is number 2, the longest "
               "has 9 tokens",
               [&] { rows(samples, {.T = 4, .longer = LongSamples::refuse}); });
  EXPECT_EQ(rows(samples, {.T = 9, .longer = LongSamples::refuse}).count(), 2);
}

TEST_F(SampleRowsTest, SampleWithoutCountedTargetIsDropped) {
  Words prompt(8, not_learned(3));
  prompt.push_back(4);
  const SampleRows r = rows({prompt, {1, 2}, {not_learned(1), not_learned(2)}, {5}}, {.T = 4});
  EXPECT_EQ(r.count(), 1);
  EXPECT_THAT(r.text(), HasSubstr("; 3 samples without a target that counts left out"));
  const SampleRows split = rows({prompt, {1, 2}}, {.T = 4, .longer = LongSamples::split});
  ASSERT_EQ(split.count(), 2);
  EXPECT_EQ(row_of(split, 0).targets, (Words{kNone, kNone, kNone, 4}));
  expect_error(ExitCode::bad_input, "none of its 1 sample has a target that counts",
               [&] { rows({prompt}, {.T = 4}); });
}

TEST_F(SampleRowsTest, TokensBeyondTheVocabularyAreRefused) {
  expect_error(ExitCode::bad_input, "token 9 of sample 2 is beyond the vocabulary of 9", [&] {
    rows({{1, 2}, {8, not_learned(9)}}, {.T = 4, .V = 9});
  });
}

// Samples of random lengths: each is in exactly one row, and rows say so.
TEST_F(SampleRowsTest, EverySampleIsInOneRow) {
  constexpr int kSamples = 200;
  std::vector<Words> samples;
  for (int i = 0; i < kSamples; ++i) {
    const auto n = 2 + static_cast<int32_t>(mix(static_cast<uint64_t>(i)) % 30);
    samples.push_back(learned(i, n));  // its first token is its number
  }
  const SampleRows r = rows(samples, {.T = 32, .pack = true});
  std::map<int32_t, int> seen;
  int64_t inputs = 0;
  for (int64_t row = 0; row < r.count(); ++row) {
    const Row got = row_of(r, row);
    int64_t counting = 0;
    for (int32_t t = 0; t < 32; ++t) {
      const auto at = static_cast<size_t>(t);
      const int32_t start = got.starts[at];
      ASSERT_LE(start, t);
      ASSERT_EQ(got.starts[static_cast<size_t>(start)], start);
      if (got.targets[at] == kNone) continue;
      ++counting;
      const int32_t number = got.tokens[static_cast<size_t>(start)];
      if (start == t) ++seen[number];
      EXPECT_EQ(got.tokens[at], number + t - start);
      EXPECT_EQ(got.targets[at], number + t - start + 1);
    }
    EXPECT_EQ(r.targets(row), counting);
    inputs += counting;
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kSamples));
  EXPECT_TRUE(std::ranges::all_of(seen, [](const auto& s) { return s.second == 1; }));
  EXPECT_GT(static_cast<double>(inputs) / static_cast<double>(r.count() * 32), 0.9);
}

TEST_F(SampleRowsTest, DatasetCountsTargetsFromAnyStart) {
  std::vector<Words> samples;
  for (int32_t i = 0; i < 10; ++i) samples.push_back(learned(i * 10, 2 + i % 5));
  const auto all = std::make_shared<SampleRows>(rows(samples, {.T = 8}));
  const Dataset data(all, OrderOptions{.shuffle = true, .seed = 3});
  for (const int64_t first : {0, 7, 13}) {
    Words tokens(5 * 8), targets(5 * 8), starts(5 * 8);
    data.fill(first, tokens, targets, starts);
    EXPECT_EQ(data.targets(first, 5), std::ranges::count_if(targets, [](int t) { return t >= 0; }));
  }
  EXPECT_EQ(data.targets(0, 10), 30);
  const Dataset::Split split = data.hold_out(0.25);
  EXPECT_EQ(split.train.windows(), 7);
  EXPECT_EQ(split.train.targets(0, 7) + split.held_out.targets(0, 3), 30);
}

TEST_F(SampleRowsTest, FingerprintsSeeTokensAndLayout) {
  const std::vector<Words> samples{learned(1, 3), learned(10, 10)};
  const DataFingerprint plain = rows(samples, {.T = 4}).fingerprint();
  EXPECT_EQ(rows(samples, {.T = 4}).fingerprint(), plain);
  EXPECT_NE(rows(samples, {.T = 4, .longer = LongSamples::split}).fingerprint(), plain);
  EXPECT_NE(rows({learned(2, 3), learned(10, 10)}, {.T = 4}).fingerprint(), plain);
}

}  // namespace
}  // namespace snug
