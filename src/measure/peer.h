// A training of the same run by a peer: PyTorch, in a process of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "recipe/resolve.h"
#include "snug/bench.h"

namespace snug {

// Throws a usage error for a run that the peer's script does not train: it would be compared with
// something else.
void require_comparable(const Resolved& run);

// A directory with the model's config.json, gone again at the end.
class ConfigDirectory {
 public:
  explicit ConfigDirectory(const Model& model);
  ~ConfigDirectory();
  ConfigDirectory(const ConfigDirectory&) = delete;
  ConfigDirectory& operator=(const ConfigDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Of a mode: "torch eager". Throws a usage error for another one.
std::string row_name(const std::string& mode);

// `warm_up`: steps that do not count. What goes wrong is in the row.
BenchRow train_peer(const Resolved& run, const Peer& peer, const std::filesystem::path& config,
                    const std::string& mode, int64_t warm_up);

}  // namespace snug
