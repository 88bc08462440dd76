#include "kernels/cuda/gemm_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/testing.h"

namespace snug::ops {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;

const TunedGemm kTuned{{1, 2, 3, 0xFFFFFFFFFFFFFFFF, 5, 6, 7, 8}, 0.03125, 3584};
constexpr const char* kKey = "4096x896x3584 bf16 bf16 bf16 nt sum";

class GemmCacheTest : public ::testing::Test {
 protected:
  GemmCacheTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& content) const { std::ofstream(path_) << content; }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("snug-products-" + std::to_string(getpid()));
  const fs::path path_ = folder_ / "deep" / "products.txt";
};

}  // namespace

TEST(TunedGemm, ReadsBackItsLine) {
  const auto parsed = parse_tuned(format_tuned(kKey, kTuned));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->first, kKey);
  EXPECT_EQ(parsed->second, kTuned);
}

TEST(TunedGemm, DetectsAnyChangedCharacter) {
  const std::string line = format_tuned(kKey, kTuned);
  for (size_t i = 0; i < line.size(); ++i) {
    std::string damaged = line;
    damaged[i] = damaged[i] == '7' ? '8' : '7';
    EXPECT_FALSE(parse_tuned(damaged).has_value()) << damaged;
    EXPECT_FALSE(parse_tuned(line.substr(0, i)).has_value()) << i;
  }
  EXPECT_FALSE(parse_tuned(line + "0").has_value());
  EXPECT_FALSE(parse_tuned(line + "\t0").has_value());
}

TEST(GemmCachePath, IsOfTheDeviceAndTheLibrary) {
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(gemm_cache_path("NVIDIA H200 / MIG", 130100),
            "/caches/snug/products4-nvidia-h200---mig-130100.txt");
  setenv("XDG_CACHE_HOME", "", 1);
  setenv("HOME", "/home/ada", 1);
  EXPECT_EQ(gemm_cache_path("T4", 1), "/home/ada/.cache/snug/products4-t4-1.txt");
  unsetenv("HOME");
  EXPECT_EQ(gemm_cache_path("T4", 1), "");
}

TEST_F(GemmCacheTest, KeepsEntries) {
  GemmCache(path_).put(kKey, kTuned);
  const GemmCache again(path_);
  ASSERT_NE(again.find(kKey), nullptr);
  EXPECT_EQ(*again.find(kKey), kTuned);
  EXPECT_EQ(again.find("another"), nullptr);
}

TEST_F(GemmCacheTest, TwoProcessesKeepEachOthersLines) {
  GemmCache one(path_), other(path_);
  one.put("a", kTuned);
  other.put("b", kTuned);
  EXPECT_NE(GemmCache(path_).find("a"), nullptr);
  EXPECT_NE(GemmCache(path_).find("b"), nullptr);
}

TEST_F(GemmCacheTest, DamagedLineIsReportedAndSkipped) {
  fs::create_directories(path_.parent_path());
  write(format_tuned("a", kTuned) + "\nnonsense\n" + format_tuned("b", kTuned));
  const testing::NotesTaken notes;
  GemmCache cache(path_);
  EXPECT_THAT(notes.text(), HasSubstr("products.txt:2: a damaged line; its GEMM is timed again"));
  EXPECT_NE(cache.find("a"), nullptr);
  EXPECT_NE(cache.find("b"), nullptr);
}

TEST_F(GemmCacheTest, UnwritableFileIsReportedAndKeptInMemory) {
  std::ofstream(folder_ / "deep") << "a file where a folder should be";
  GemmCache cache(path_);
  const testing::NotesTaken notes;
  cache.put(kKey, kTuned);
  EXPECT_THAT(notes.text(), EndsWith("GEMMs are timed again in the next run\n"));
  EXPECT_NE(cache.find(kKey), nullptr);
}

TEST(GemmCache, NothingIsKeptWithoutPath) {
  GemmCache cache{fs::path()};
  cache.put(kKey, kTuned);
  EXPECT_NE(cache.find(kKey), nullptr);
}

}  // namespace snug::ops
