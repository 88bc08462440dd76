#include "ops/attention/packed_heads.h"

#include <gtest/gtest.h>

#include "ops/packed_rows.h"

namespace snug::ops {
namespace {

// Every question has the answer that comes of asking for each pair.
void expect_consistent(const SeenKeys& keys, int64_t T) {
  for (int64_t i = 0; i < T; ++i) {
    for (int64_t j = 0; j < T; ++j) {
      const bool sees = keys.sees(i, j);
      EXPECT_EQ(sees, j >= keys.first(i) && j < keys.end(i, T)) << i << " and key " << j;
      EXPECT_EQ(sees, i >= keys.first_query(j) && i < keys.end_query(j, T)) << i << " and " << j;
    }
  }
}

std::vector<int32_t> starts_of(int64_t B, int64_t T, std::vector<int64_t> lengths) {
  const SampleInput input = packed_starts(B, T, std::move(lengths));
  RefTensor tensor{input.type, std::vector<double>(static_cast<size_t>(B * T))};
  input.fill.compute(tensor, {});
  return {tensor.v.begin(), tensor.v.end()};
}

TEST(SeenKeys, AgreeAcrossForms) {
  constexpr int64_t T = 23;
  for (const int64_t window : {0, 1, 4, 22, 23, 40}) {
    expect_consistent({.causal = true, .window = window}, T);
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{23}, {1}, {3, 1, 7}, {22}, {5, 18}}) {
      SCOPED_TRACE(fmt::format("window {}, {} lengths", window, lengths.size()));
      const std::vector<int32_t> starts = starts_of(2, T, lengths);
      const SeenKeys keys{.causal = true, .window = window, .starts = starts.data()};
      for (const int64_t b : {0, 1}) expect_consistent(keys.of_row(b, T), T);
    }
  }
  expect_consistent({.causal = false}, T);
}

TEST(SeenKeys, EndAtSampleStart) {
  const std::vector<int32_t> starts{0, 0, 0, 3, 4, 4, 4, 4};
  const SeenKeys keys{.causal = true, .window = 2, .starts = starts.data()};
  EXPECT_EQ(keys.first(2), 1) << "the window";
  EXPECT_EQ(keys.first(4), 4) << "the sample";
  EXPECT_FALSE(keys.sees(3, 2));
  EXPECT_EQ(keys.end_query(2, 8), 3);
  EXPECT_EQ(keys.end_query(4, 8), 6);
  EXPECT_EQ(keys.end_query(7, 8), 8);
}

TEST(PackedStarts, RowsRotateTheLengths) {
  EXPECT_EQ(starts_of(2, 8, {3, 1, 4}),
            (std::vector<int32_t>{0, 0, 0, 3, 4, 4, 4, 4, 0, 1, 1, 1, 1, 5, 5, 5}));
}

TEST(PackedStarts, PositionsRestartWithEachSample) {
  const std::vector<int32_t> starts{0, 0, 2, 2, 0, 1, 1, 1};
  std::vector<int64_t> positions, without;
  for (int64_t row = 0; row < 8; ++row) {
    positions.push_back(position_in_sample(starts.data(), row, 4));
    without.push_back(position_in_sample(nullptr, row, 4));
  }
  EXPECT_EQ(positions, (std::vector<int64_t>{0, 1, 0, 1, 0, 0, 1, 2}));
  EXPECT_EQ(without, (std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 3}));
}

}  // namespace
}  // namespace snug::ops
