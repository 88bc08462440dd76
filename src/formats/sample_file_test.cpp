#include "formats/sample_file.h"

#include <cstring>

#include "base/text.h"
#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::TempDir;
using testing::write_bytes;

using Words = std::vector<std::vector<int32_t>>;

class SampleFileTest : public ::testing::Test {
 protected:
  SampleFile write(int64_t vocabulary, const Words& samples, const SampleLines& lines = {}) {
    SampleFileWriter out(path_, vocabulary);
    for (const auto& words : samples) out.write(words);
    out.commit(lines);
    return SampleFile::open(path_);
  }
  static Words all(const SampleFile& file) {
    Words out;
    int64_t at = 0;
    file.each([&](int64_t begin, std::span<const int32_t> words) {
      EXPECT_EQ(begin, at);
      at += static_cast<int64_t>(words.size());
      out.emplace_back(words.begin(), words.end());
    });
    return out;
  }

  TempDir dir_;
  std::filesystem::path path_ = dir_ / "a.samples";
};

TEST_F(SampleFileTest, ReadsBackWhatWasWritten) {
  for (const int64_t vocabulary : {32768, 32769}) {
    const int32_t last = static_cast<int32_t>(vocabulary) - 1;
    const Words samples{{1, not_learned(0), last}, {not_learned(last)}, {5, 6, 7, 8}};
    const SampleLines lines{.lines = 6, .empty = 2, .bad = 1};
    const SampleFile file = write(vocabulary, samples, lines);
    EXPECT_EQ(file.samples(), 3);
    EXPECT_EQ(file.tokens(), 8);
    EXPECT_EQ(file.vocabulary(), vocabulary);
    EXPECT_EQ(file.lines(), lines);
    EXPECT_EQ(all(file), samples);
    EXPECT_TRUE(is_sample_file(path_));
    std::vector<int32_t> some(3);
    file.copy(2, some);
    EXPECT_EQ(some, (std::vector<int32_t>{last, not_learned(last), 5}));
    EXPECT_EQ(id_of(some[1]), last);
    EXPECT_FALSE(is_learned(some[1]));
  }
}

TEST_F(SampleFileTest, DamageIsRefused) {
  write(300, {{1, 2, 3}, {4}});
  const std::string good = read_file(path_);
  const auto refused = [&](std::string_view bytes, std::string_view part) {
    write_bytes(path_, bytes);
    expect_error(ExitCode::bad_input, part, [&] { SampleFile::open(path_); });
  };
  const auto changed = [&](size_t at, int64_t number) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &number, sizeof number);
    return bytes;
  };
  refused(good.substr(0, 63), "truncated: a header of samples is 64 bytes, the file has 63");
  refused("x" + good.substr(1), "does not begin as a file of samples");
  refused(changed(8, 2), "version 2 of samples");
  refused(changed(16, 5), "2 samples of 5 tokens need 96 bytes, the file has 88");
  refused(changed(16, -1), "its header counts -1 tokens");
  refused(changed(24, 0), "in 0 samples");
  refused(changed(24, int64_t{1} << 62), "its header counts 4 tokens");
  refused(good + "x", "need 88 bytes, the file has 89");
  refused(changed(72, 0), "a sample begins at token 0 and ends at 0 of 4");
  refused(changed(80, 5), "a sample begins at token 3 and ends at 5 of 4");
  refused(changed(72, 4), "a sample begins at token 4 and ends at 4 of 4");
  write_bytes(path_, "short");
  EXPECT_FALSE(is_sample_file(path_));
}

TEST_F(SampleFileTest, FileWithoutSamplesIsRefused) {
  expect_error(ExitCode::bad_input, "0 tokens", [&] { write(300, {}); });
}

TEST_F(SampleFileTest, NothingIsLeftWithoutCommit) {
  {
    SampleFileWriter out(path_, 300);
    out.write(std::vector<int32_t>{1});
  }
  EXPECT_TRUE(testing::names_in(dir_.path()).empty());
}

}  // namespace
}  // namespace snug
