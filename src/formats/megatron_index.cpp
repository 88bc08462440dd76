#include "formats/megatron_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/file_reader.h"

namespace snug {
namespace {

constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr int64_t kIndexHeader = 9 + 8 + 1 + 8 + 8;

template <typename T>
T number_at(const FileReader& file, int64_t at) {
  T out{};
  file.read(at, std::as_writable_bytes(std::span(&out, 1)));
  return out;
}

int64_t width_of_type(const FileReader& file, int code) {
  constexpr int kInt32 = 4, kUint16 = 8;
  if (code == kInt32) return 4;
  if (code == kUint16) return 2;
  throw bad_input("{}: tokens of type {}; {} (int32) and {} (uint16) are read",
                  file.path().string(), code, kInt32, kUint16)
      .hint("write the tokens again with one of these");
}

// Adds lengths up, and holds each sequence's offset against it: no gap, nothing twice.
int64_t tokens_of(const FileReader& file, const MegatronIndex& index) {
  constexpr int64_t kAtOnce = 4096;
  std::vector<int32_t> lengths;
  std::vector<int64_t> offsets;
  int64_t tokens = 0;
  for (int64_t first = 0; first < index.sequences; first += kAtOnce) {
    const auto n = static_cast<size_t>(std::min(kAtOnce, index.sequences - first));
    lengths.resize(n);
    offsets.resize(n);
    file.read(kIndexHeader + first * 4, std::as_writable_bytes(std::span(lengths)));
    file.read(kIndexHeader + index.sequences * 4 + first * 8,
              std::as_writable_bytes(std::span(offsets)));
    for (size_t i = 0; i < n; ++i) {
      if (lengths[i] < 0 || offsets[i] != tokens * index.token_bytes) {
        throw bad_input("{}: sequence {} has {} tokens from byte {} on, and {} come before it",
                        file.path().string(), first + static_cast<int64_t>(i), lengths[i],
                        offsets[i], tokens);
      }
      tokens += lengths[i];
    }
  }
  return tokens;
}

}  // namespace

std::filesystem::path megatron_index_of(std::filesystem::path bin) {
  return bin.replace_extension(".idx");
}

MegatronIndex read_megatron_index(const std::filesystem::path& path) {
  const FileReader file(path);
  std::array<char, kIndexMagic.size()> magic{};
  if (file.size() >= kIndexHeader) file.read(0, std::as_writable_bytes(std::span(magic)));
  if (!std::ranges::equal(magic, kIndexMagic)) {
    throw bad_input("{} does not begin as Megatron's index", path.string())
        .hint(
            "a .bin file with an .idx file next to it is taken to be Megatron's: move one of them");
  }
  if (const auto version = number_at<uint64_t>(file, 9); version != 1)
    throw bad_input("{}: version {} of Megatron's index; 1 is read", path.string(), version);
  MegatronIndex index{.token_bytes = width_of_type(file, number_at<uint8_t>(file, 17))};
  const auto sequences = number_at<uint64_t>(file, 18), documents = number_at<uint64_t>(file, 26);
  const auto size = static_cast<uint64_t>(file.size());
  const uint64_t data = size - static_cast<uint64_t>(kIndexHeader);
  if (sequences > size || documents > size || data != sequences * 12 + documents * 8) {
    throw bad_input("{}: {} sequences and {} documents do not make its {} bytes", path.string(),
                    sequences, documents, size);
  }
  index.sequences = static_cast<int64_t>(sequences);
  index.tokens = tokens_of(file, index);
  return index;
}

}  // namespace snug
