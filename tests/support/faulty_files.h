// What writers of files leave when a system call fails, when the process dies after one, and
// when the power goes: every call of a save in turn. Only for tests of snug_faults_test, whose
// system calls go through tests/faults/interposed_calls.cpp; code under test knows nothing of it.
//
//   TempDir dir;
//   write_bytes(dir / "box/a.json", "old");
//   const auto save = [&] { write_file_atomically(dir / "box/a.json", "new"); };
//   const auto check = [](const std::filesystem::path& box) {
//     EXPECT_THAT(read_file(box / "a.json"), AnyOf("old", "new"));
//   };
//   for_each_last_call(dir / "box", save, check);
//   for_each_power_loss(dir / "box", save, check);
//
// All that a save touches must be inside the folder, which is restored before every save, and is
// as at first in the end. A save opens files by open(), not by fopen() or streams. All stop at the
// first check that fails, and say at which call that was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace snug::testing {

using Save = std::function<void()>;
// Looks at what there is in the folder, or in a copy of it, and may change it.
using CheckFolder = std::function<void(const std::filesystem::path& folder)>;

// The calls of a save inside the folder, in order: "rename out/a.json.part out/a.json".
std::vector<std::string> calls_of(const std::filesystem::path& folder, const Save& save);

// The process is killed right after the call. Gives the number of calls.
int64_t for_each_last_call(const std::filesystem::path& folder, const Save& save,
                           const CheckFolder& check);

struct FailedCall {
  std::string call;                  // "rename out/a.json.part out/a.json: Input/output error"
  std::optional<std::string> error;  // what the save threw; none: it went on
};
using CheckFailure =
    std::function<void(const std::filesystem::path& folder, const FailedCall& failed)>;

// The call does nothing and fails, with ENOSPC and with EIO; a write is also short, and then goes on
// or finds the disk full.
int64_t for_each_failing_call(const std::filesystem::path& folder, const Save& save,
                              const CheckFailure& check);

// The power goes after the call. What no fsync made durable before (bytes of a file by one of the
// file, names by one of their folder) is on the disk or is not: all of it, none, all but one, one
// alone, and some drawn subsets, half writes among them. Gives the number of different folders
// that were checked.
int64_t for_each_power_loss(const std::filesystem::path& folder, const Save& save,
                            const CheckFolder& check);

}  // namespace snug::testing
