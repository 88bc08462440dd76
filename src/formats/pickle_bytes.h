// The bytes of a pickle in their order, and the text of its first protocols.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "formats/file_reader.h"

namespace snug {

class PickleBytes {
 public:
  explicit PickleBytes(const std::filesystem::path& path)
      : file_(path), block_(FileReader::kBlock) {}

  int64_t at() const { return start_ + next_; }
  int64_t left() const { return file_.size() - at(); }
  std::string name() const { return file_.path().string(); }

  uint8_t byte() {
    if (next_ == held_) refill();
    return block_[static_cast<size_t>(next_++)];
  }
  void read(int64_t bytes, std::string& to) {
    require(bytes);
    to.resize(static_cast<size_t>(bytes));
    for (char& c : to) c = static_cast<char>(byte());
  }
  template <typename T>
  T little() {
    std::array<uint8_t, sizeof(T)> raw;
    for (uint8_t& b : raw) b = byte();
    return std::bit_cast<T>(raw);
  }
  // Up to a newline, without it.
  std::string line() {
    std::string text;
    for (uint8_t c = byte(); c != '\n'; c = byte()) {
      text.push_back(static_cast<char>(c));
      if (std::ssize(text) > kLongestLine)
        throw bad_input("{}: a line of the pickle is longer than {} bytes at byte {}", name(),
                        format_exact(kLongestLine), format_exact(at()));
    }
    return text;
  }
  // Throws where the file has less than that left.
  void require(uint64_t bytes) const {
    if (bytes <= static_cast<uint64_t>(left())) return;
    throw bad_input("{} is truncated: {} bytes are announced at byte {}, and {} follow", name(),
                    bytes, format_exact(at()), format_exact(left()));
  }

 private:
  static constexpr int64_t kLongestLine = 1 << 16;

  void refill() {
    if (left() == 0)
      throw bad_input("{} is truncated: the pickle has not ended after {} bytes", name(),
                      format_exact(file_.size()))
          .hint("copy it again; torch.cuda.memory._dump_snapshot writes it whole");
    start_ += held_;
    next_ = 0;
    held_ = std::min<int64_t>(std::ssize(block_), file_.size() - start_);
    file_.read(start_, std::as_writable_bytes(std::span(block_).first(static_cast<size_t>(held_))));
  }

  FileReader file_;
  std::vector<uint8_t> block_;
  int64_t start_ = 0, next_ = 0, held_ = 0;
};

// Text of protocols 0 and 1: \n, \', \\, \xNN and \ooo stand for bytes, \uNNNN for characters.
inline std::string unescaped_text(std::string_view text) {
  std::string out;
  const auto number = [&](size_t at, size_t digits, int base) {
    uint32_t value = 0;
    const char* from = text.data() + std::min(at, text.size());
    std::from_chars(from, text.data() + std::min(at + digits, text.size()), value, base);
    return value;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i]);
      continue;
    }
    const char kind = text[++i];
    if (kind == 'n') {
      out.push_back('\n');
    } else if (kind == 't') {
      out.push_back('\t');
    } else if (kind == 'r') {
      out.push_back('\r');
    } else if (kind == 'x') {
      out.push_back(static_cast<char>(number(i + 1, 2, 16)));
      i += 2;
    } else if (kind == 'u') {
      const uint32_t c = number(i + 1, 4, 16);
      i += 4;
      if (c < 0x80) {
        out.push_back(static_cast<char>(c));
      } else if (c < 0x800) {
        out += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
      } else {
        out += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)),
                static_cast<char>(0x80 | (c & 0x3f))};
      }
    } else {
      out.push_back(kind);
    }
  }
  return out;
}

}  // namespace snug
