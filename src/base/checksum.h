// XXH64 of bytes that come in pieces: what a checkpoint says of what it holds, so that a bit that
// turned over on a disk is found. Not against deliberate changes.
//
//   Checksum sum;
//   sum.add(first);
//   sum.add(rest);
//   sum.text();   // "44bc2cf5ad770999"
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace snug {

class Checksum {
 public:
  Checksum();

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  uint64_t value() const;  // of all that was added so far
  std::string text() const;

 private:
  static constexpr size_t kStripe = 32;

  void take(const std::byte* stripe);

  std::array<uint64_t, 4> lanes_;
  std::array<std::byte, kStripe> rest_{};
  uint64_t bytes_ = 0;
};

std::string checksum_text(std::string_view text);

}  // namespace snug
