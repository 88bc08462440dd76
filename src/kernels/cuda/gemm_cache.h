// The algorithms that timing has chosen, kept on disk: one line per GEMM. A file belongs to one
// kind of device and one version of the library; what is damaged in it is told and timed again.
//
//   4096x896x3584 bf16 bf16 bf16 nt<TAB>3f00...<TAB>0.0312<TAB>0<TAB>9ae16a3b2f90404f
//   the GEMM, the algorithm's 64 bytes, milliseconds, the rows of its first part (0: it has
//   none), and a hash of what precedes it
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace snug::ops {

struct TunedGemm {
  std::array<uint64_t, 8> algorithm = {};  // cublasLtMatmulAlgo_t, which may be kept as it is
  double ms = 0;
  int64_t rows = 0;  // the first so many are a GEMM of their own, and the others; 0: one GEMM
  bool operator==(const TunedGemm&) const = default;
};

std::string format_tuned(std::string_view key, const TunedGemm& tuned);
std::optional<std::pair<std::string, TunedGemm>> parse_tuned(std::string_view line);

// ${XDG_CACHE_HOME:-$HOME/.cache}/snug/products4-nvidia-h200-130100.txt; empty where neither is
// set.
std::filesystem::path gemm_cache_path(std::string_view device, size_t library_version);

class GemmCache {
 public:
  explicit GemmCache(std::filesystem::path path);  // empty: nothing is read or kept

  const std::filesystem::path& path() const { return path_; }
  const TunedGemm* find(const std::string& key) const;  // nullptr when there is none
  // Also writes the file, with what other processes added to it. Failing to is no error.
  void put(const std::string& key, const TunedGemm& tuned);

 private:
  void read(bool tell_damage);
  void write() const;

  std::filesystem::path path_;
  std::map<std::string, TunedGemm> entries_;
};

}  // namespace snug::ops
