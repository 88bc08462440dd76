// Packing is checked by brute force on random blocks, and for tightness on steps shaped like a
// transformer's.
#include "placement/packing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace snug {
namespace {

bool meet(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

void expect_sound(const std::vector<Block>& blocks, const Packing& packing, int64_t alignment) {
  ASSERT_EQ(packing.offsets.size(), blocks.size());
  int64_t top = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_GE(packing.offsets[i], 0);
    ASSERT_EQ(packing.offsets[i] % alignment, 0);
    top = std::max(top, packing.offsets[i] + blocks[i].bytes);
    for (size_t j = 0; j < i; ++j) {
      if (!meet(blocks[i], blocks[j])) continue;
      ASSERT_TRUE(packing.offsets[i] + blocks[i].bytes <= packing.offsets[j] ||
                  packing.offsets[j] + blocks[j].bytes <= packing.offsets[i])
          << "blocks " << i << " and " << j << " share bytes";
    }
  }
  EXPECT_EQ(packing.height, top);
  EXPECT_GE(packing.height, packing.max_live);
}

double ratio(const Packing& p) {
  return static_cast<double>(p.height) / static_cast<double>(p.max_live);
}

// Draws in [0, below): a small deterministic source.
class Dice {
 public:
  explicit Dice(uint64_t seed) : key_(random_key(seed, 0, 0)) {}
  int64_t operator()(int64_t below) {
    return static_cast<int64_t>(philox(key_, counter_++)[0] % static_cast<uint64_t>(below));
  }

 private:
  Key key_;
  uint64_t counter_ = 0;
};

std::vector<Block> random_blocks(uint64_t seed, int64_t n) {
  Dice dice(seed);
  std::vector<Block> blocks;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t first = dice(n);
    const int64_t span = dice(dice(3) == 0 ? n : 12);
    blocks.push_back({dice(4) == 0 ? dice(1'000'000) : dice(5'000), static_cast<int32_t>(first),
                      static_cast<int32_t>(std::min(n - 1, first + span))});
  }
  return blocks;
}

struct Model {
  int64_t layers, rows, width, mlp, kv, vocab;
};

// A training step of a llama-like model: a layer's forward keeps values until its backward, which
// frees them in reverse order with temporaries of its own; the loss makes logits whole in between.
class StepBlocks {
 public:
  explicit StepBlocks(const Model& m) : m_(m) {
    std::vector<std::vector<size_t>> kept;
    for (int64_t l = 0; l < m.layers; ++l) kept.push_back(forward());
    const size_t logits = make(m.vocab, 1);
    next();
    make(m.vocab, 2);  // their gradient
    blocks_[logits].last = now_;
    next();
    for (int64_t l = m.layers; l-- > 0;) backward(kept[static_cast<size_t>(l)]);
  }
  std::vector<Block> take() { return std::move(blocks_); }

 private:
  size_t make(int64_t columns, int32_t ops) {
    blocks_.push_back({m_.rows * columns * 4, now_, now_ + ops});
    return blocks_.size() - 1;
  }
  void next() { ++now_; }

  std::vector<size_t> forward() {
    std::vector<size_t> kept;
    for (int64_t columns :
         {m_.width, int64_t{1}, m_.width, m_.width + 2 * m_.kv, m_.width + m_.kv}) {
      kept.push_back(make(columns, 1));
      next();
    }
    make(64, 0);        // attention's scratch
    make(m_.width, 1);  // projected
    for (int64_t columns : {m_.width, m_.width, int64_t{1}, 2 * m_.mlp, m_.mlp}) {
      kept.push_back(make(columns, 1));
      next();
    }
    make(m_.width, 1);
    next();
    return kept;
  }
  void backward(const std::vector<size_t>& kept) {
    const size_t residual = make(m_.width, 1);
    for (size_t k = kept.size(); k-- > 0;) {
      blocks_.push_back({blocks_[kept[k]].bytes, now_, now_ + 1});  // the gradient of what was kept
      blocks_[kept[k]].last = now_;
      if (k % 4 == 0) make(m_.width, 3);
      next();
    }
    blocks_[residual].last = now_;
  }

  Model m_;
  int32_t now_ = 0;
  std::vector<Block> blocks_;
};

TEST(Packing, EmptyInputTakesNoBytes) {
  EXPECT_EQ(pack({}, 256).height, 0);
  EXPECT_EQ(pack(std::vector<Block>{{0, 0, 3}}, 256).height, 0);
}

TEST(Packing, HeightEndsAtTheLastExactByte) {
  const std::vector<Block> blocks{{100, 0, 1}, {1000, 1, 2}};
  const Packing p = pack(blocks, 256);
  expect_sound(blocks, p, 256);
  EXPECT_EQ(p.max_live, 1100);
  EXPECT_LE(p.height, 1256);  // 1000 above 100 rounded up to 256
}

TEST(Packing, DeadBytesAreReused) {
  const Packing p = pack(std::vector<Block>{{512, 0, 1}, {512, 2, 3}, {512, 4, 5}}, 256);
  EXPECT_EQ(p.height, 512);
}

TEST(Packing, RandomBlocksNeverShareBytes) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto blocks = random_blocks(seed, 150 + 40 * static_cast<int64_t>(seed));
    const Packing p = pack(blocks, 256, 300'000);
    expect_sound(blocks, p, 256);
    EXPECT_LE(ratio(p), 1.15) << "seed " << seed << ", " << p.order;
  }
}

TEST(Packing, SmallEffortStillGivesAPacking) {
  const auto blocks = random_blocks(5, 300);
  expect_sound(blocks, pack(blocks, 64, 0), 64);
}

TEST(Packing, MoreEffortIsNeverWorse) {
  const auto blocks = random_blocks(7, 400);
  int64_t before = pack(blocks, 256, 0).height;
  for (int64_t effort : {100'000, 400'000, 1'600'000}) {
    const int64_t now = pack(blocks, 256, effort).height;
    EXPECT_LE(now, before);
    before = now;
  }
}

TEST(Packing, TransformerStepsAreTight) {
  const std::vector<Model> models{
      {12, 8 * 1024, 768, 3072, 768, 50257},    {24, 32 * 1024, 896, 4864, 128, 151936},
      {32, 8 * 2048, 4096, 11008, 4096, 32000}, {126, 4096, 16384, 53248, 1024, 128256},
      {48, 1024, 1000, 3000, 1000, 257},
  };
  for (const Model& m : models) {
    const auto blocks = StepBlocks(m).take();
    const Packing p = pack(blocks, 256);
    expect_sound(blocks, p, 256);
    EXPECT_LE(ratio(p), 1.02) << m.layers << " layers, " << p.order;
  }
}

TEST(Packing, TwentyThousandValuesStayTight) {
  const auto blocks = StepBlocks({800, 512, 1024, 4096, 256, 32000}).take();
  ASSERT_GE(blocks.size(), 20'000U);
  EXPECT_LE(ratio(pack(blocks, 256)), 1.02);
}

TEST(Packing, LiveProfileCountsBothEnds) {
  EXPECT_EQ(live_profile(std::vector<Block>{{10, 0, 1}, {5, 1, 2}}),
            (std::vector<int64_t>{10, 15, 5}));
}

}  // namespace
}  // namespace snug
