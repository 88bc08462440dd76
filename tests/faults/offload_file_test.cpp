// The file of values on disk: after any failure or death of the process, no name is left, and reads
// return what was written.
#include "hal/disk_file.h"

#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "formats/testing.h"
#include "support/faulty_files.h"

namespace snug::testing {
namespace {

namespace fs = std::filesystem;

// Bytes that end inside a grain, written twice and read back.
void use_a_file(const fs::path& folder) {
  constexpr size_t kBytes = 3 * DiskFile::kGrain + 100;
  DiskFile file(folder.string(), kBytes, {.read = ::pread, .write = ::pwrite});
  for (const unsigned char seed : {3, 5}) {
    std::vector<std::byte> bytes(kBytes), back(kBytes);
    for (size_t i = 0; i < kBytes; ++i) bytes[i] = std::byte(static_cast<unsigned char>(i * seed));
    file.write(0, bytes);
    file.read(0, back);
    if (back != bytes) throw internal_error("what was written is not what is read");
  }
}

TEST(OffloadFileFaults, LeavesNoFileAndReadsWrittenBytes) {
  TempDir dir;
  const fs::path box = dir / "box";
  write_bytes(box / "unrelated", "kept");
  const auto use = [&] { use_a_file(box); };
  const auto nothing_is_left = [](const fs::path& at) {
    EXPECT_THAT(names_in(at), ::testing::ElementsAre("unrelated"));
    EXPECT_EQ(read_file(at / "unrelated"), "kept");
  };
  EXPECT_GT(for_each_last_call(box, use, nothing_is_left), 3);
  int refused = 0;
  for_each_failing_call(box, use, [&](const fs::path& at, const FailedCall& failed) {
    nothing_is_left(at);
    if (!failed.error) return;  // a short write went on, or direct I/O was given up
    ++refused;
    EXPECT_THAT(*failed.error, ::testing::HasSubstr(box.string())) << failed.call;
  });
  EXPECT_GT(refused, 3);
}

}  // namespace
}  // namespace snug::testing
