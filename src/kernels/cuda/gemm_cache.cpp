#include "kernels/cuda/gemm_cache.h"

#include <charconv>

#include "base/cache.h"
#include "base/error.h"
#include "base/notes.h"
#include "base/rng.h"
#include "base/text.h"

namespace snug::ops {
namespace {

constexpr size_t kHexOfWord = 16;

template <typename T, typename... Format>
bool parse_whole(std::string_view text, T& value, Format... format) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value, format...);
  return error == std::errc{} && stopped == end;
}

bool parse_algorithm(std::string_view hex, std::array<uint64_t, 8>& algorithm) {
  if (hex.size() != kHexOfWord * algorithm.size()) return false;
  for (uint64_t& word : algorithm) {
    if (!parse_whole(hex.substr(0, kHexOfWord), word, 16)) return false;
    hex.remove_prefix(kHexOfWord);
  }
  return true;
}

}  // namespace

std::string format_tuned(std::string_view key, const TunedGemm& tuned) {
  std::string line = fmt::format("{}\t", key);
  for (const uint64_t word : tuned.algorithm) line += fmt::format("{:016x}", word);
  line += fmt::format("\t{:.6f}\t{}", tuned.ms, tuned.rows);
  return fmt::format("{}\t{:016x}", line, hash_name(line));
}

std::optional<std::pair<std::string, TunedGemm>> parse_tuned(std::string_view line) {
  const std::vector<std::string> fields = split(line, '\t');
  if (fields.size() != 5 || fields[0].empty()) return std::nullopt;
  TunedGemm tuned;
  uint64_t hash = 0;
  const bool whole = parse_algorithm(fields[1], tuned.algorithm) &&
                     parse_whole(fields[2], tuned.ms) && tuned.ms >= 0 &&
                     parse_whole(fields[3], tuned.rows) && tuned.rows >= 0 &&
                     fields[4].size() == kHexOfWord && parse_whole(fields[4], hash, 16) &&
                     hash == hash_name(line.substr(0, line.rfind('\t')));
  if (!whole) return std::nullopt;
  return std::pair{fields[0], tuned};
}

std::filesystem::path gemm_cache_path(std::string_view device, size_t library_version) {
  constexpr int kMethod = 4;  // how algorithms are timed: what another way chose is not read
  return cache_file(fmt::format("products{}-{}-{}.txt", kMethod, slug(device), library_version));
}

GemmCache::GemmCache(std::filesystem::path path) : path_(std::move(path)) { read(true); }

const TunedGemm* GemmCache::find(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

void GemmCache::put(const std::string& key, const TunedGemm& tuned) {
  read(false);
  entries_[key] = tuned;
  write();
}

// What is known already stays: a process keeps the algorithms that it began with.
void GemmCache::read(bool tell_damage) {
  std::error_code failure;
  if (path_.empty() || !std::filesystem::is_regular_file(path_, failure)) return;
  std::string content;
  try {
    content = read_file(path_);
  } catch (const Error& error) {
    note("{}; GEMMs are timed again", error.what());
    return;
  }
  int number = 0;
  for (const std::string& line : split(content, '\n')) {
    ++number;
    if (line.empty()) continue;
    if (auto parsed = parse_tuned(line))
      entries_.insert(std::move(*parsed));
    else if (tell_damage)
      note("{}:{}: a damaged line; its GEMM is timed again", path_.string(), number);
  }
}

void GemmCache::write() const {
  if (path_.empty()) return;
  std::string content;
  for (const auto& [key, tuned] : entries_) content += format_tuned(key, tuned) + "\n";
  std::error_code failure;
  std::filesystem::create_directories(path_.parent_path(), failure);
  try {
    write_file_atomically(path_, content);
  } catch (const Error& error) {
    note("{}; GEMMs are timed again in the next run", error.what());
  }
}

}  // namespace snug::ops
