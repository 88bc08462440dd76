// The files of a profile, in one directory:
//
//   trace.json        lanes, waits and memory over time: chrome://tracing, Perfetto
//   trace.pftrace     the same, as Perfetto keeps traces
//   spans.jsonl       when every op ran, measured and predicted, a line each
//   spans.csv         the same as a table
//   memory.jsonl      memory by category over time, a line for each change
//   snapshot.pickle   the arena over a step: PyTorch's memory viewer
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace snug {

// Makes the directory; each file appears when it is complete. Returns their paths. Throws bad_input
// where they cannot be written.
std::vector<std::string> write_profile_files(const Profile& profile,
                                             const std::filesystem::path& directory);

}  // namespace snug
