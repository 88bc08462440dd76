#include "checkpoint/run_history.h"

#include "base/text.h"
#include "formats/testing.h"

namespace snug {
namespace {

using testing::TempDir;

std::string numbered(int64_t step) { return "{\"step\":" + std::to_string(step) + "}"; }

TEST(RunHistory, KeepsValidLinesUpToStep) {
  const std::string text = numbered(1) + "\n" + numbered(2) + "\nrubbish\n{\"loss\":1}\n" +
                           numbered(3) + "\n{\"step\":4";
  EXPECT_EQ(history_until(text, 2), numbered(1) + "\n" + numbered(2) + "\n");
  EXPECT_EQ(history_until(text, 9), numbered(1) + "\n" + numbered(2) + "\n" + numbered(3) + "\n");
  EXPECT_EQ(history_until("", 9), "");
}

TEST(RunHistory, AppendsEveryLineWithoutDuplicates) {
  TempDir dir;
  RunHistory history(dir / "h");
  history.go_on_from(dir / "none", 0);
  EXPECT_FALSE(std::filesystem::exists(dir / "h")) << "nothing before the first step";
  for (int64_t step = 1; step <= 4; ++step) {
    EXPECT_TRUE(history.add(numbered(step)));
    EXPECT_EQ(split(read_file(dir / "h"), '\n').size(), static_cast<size_t>(step) + 1);
  }
  history.go_on_from(dir / "h", 2);  // rolled back, or resumed
  EXPECT_TRUE(history.add(numbered(3)));
  EXPECT_EQ(read_file(dir / "h"), numbered(1) + "\n" + numbered(2) + "\n" + numbered(3) + "\n");
}

TEST(RunHistory, ReportsUnwritableFile) {
  TempDir dir;
  RunHistory history(dir / "no/such/directory");
  EXPECT_FALSE(history.add(numbered(1)));
}

}  // namespace
}  // namespace snug
