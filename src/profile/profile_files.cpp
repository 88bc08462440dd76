#include "profile/profile_files.h"

#include "base/error.h"
#include "base/staged_file.h"
#include "profile/memory_lines.h"
#include "profile/memory_snapshot.h"
#include "profile/span_files.h"
#include "profile/trace_json.h"
#include "profile/trace_perfetto.h"

namespace snug {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

}  // namespace

std::vector<std::string> write_profile_files(const Profile& profile,
                                             const std::filesystem::path& directory) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure)
    throw bad_input("the profile's directory {} cannot be made: {}", directory.string(),
                    failure.message());
  using Write = std::function<void(std::string_view)>;
  std::vector<std::string> paths;
  const auto file = [&](const char* name, const std::function<void(const Write&)>& content) {
    const std::filesystem::path path = directory / name;
    StagedFile staged(path);
    std::string waiting;  // few large writes in place of many small ones
    content([&](std::string_view text) {
      waiting += text;
      if (waiting.size() < kPiece) return;
      staged.write(waiting);
      waiting.clear();
    });
    staged.write(waiting);
    staged.commit();
    paths.push_back(path.string());
  };
  const Module& module = *profile.module;
  file("trace.json", [&](const Write& write) { write_trace_json(profile, write); });
  file("trace.pftrace", [&](const Write& write) { write_trace_perfetto(profile, write); });
  file("spans.jsonl", [&](const Write& write) { write_spans_jsonl(profile, write); });
  file("spans.csv", [&](const Write& write) { write_spans_csv(profile, write); });
  file("memory.jsonl", [&](const Write& write) { write_memory_jsonl(profile, write); });
  file("snapshot.pickle", [&](const Write& write) {
    write(memory_snapshot_pickle(module,
                                 profile.measured.empty() ? profile.predicted : profile.measured));
  });
  return paths;
}

}  // namespace snug
