#include "cost/wire_times.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/text.h"

namespace snug {
namespace {

class WireTimesFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("snug-wires-" + std::to_string(getpid()));
  const std::filesystem::path path_ = folder_ / "cache/wire.json";
};

TEST_F(WireTimesFile, OneLineForEveryNumberOfRanks) {
  EXPECT_TRUE(read_wires(path_).empty());
  const WireTimes two{.ranks = 2, .engine = "sockets", .latency = 1e-5, .rate = 1e9};
  const WireTimes four{.ranks = 4, .engine = "MPI", .latency = 2e-5, .rate = 5e8};
  keep_wire(path_, {.ranks = 2, .engine = "threads", .latency = 1, .rate = 1});
  keep_wire(path_, four);
  keep_wire(path_, two);
  EXPECT_EQ(read_wires(path_), (std::vector{four, two}));
  EXPECT_DOUBLE_EQ(two.seconds(1e9), 1.00001);
}

TEST_F(WireTimesFile, DamageIsIgnored) {
  std::filesystem::create_directories(path_.parent_path());
  for (const char* text :
       {"", "[]", R"({"format": 2, "wires": []})",
        R"({"format": 1, "wires": [{"ranks": 2, "engine": "x", "latency": 0, "rate": 0}]})"}) {
    write_file_atomically(path_, text);
    EXPECT_TRUE(read_wires(path_).empty()) << text;
  }
}

}  // namespace
}  // namespace snug
