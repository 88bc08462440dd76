#include "base/checksum.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace snug {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F,
                   kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63,
                   kPrime5 = 0x27D4EB2F165667C5;

template <typename T>
T read(const std::byte* from) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

uint64_t round(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

}  // namespace

Checksum::Checksum() : lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1} {}

void Checksum::take(const std::byte* stripe) {
  for (size_t i = 0; i < lanes_.size(); ++i)
    lanes_[i] = round(lanes_[i], read<uint64_t>(stripe + 8 * i));
}

void Checksum::add(std::span<const std::byte> bytes) {
  if (const size_t held = bytes_ % kStripe; held > 0) {
    const size_t more = std::min(kStripe - held, bytes.size());
    std::copy_n(bytes.begin(), more, rest_.begin() + static_cast<ptrdiff_t>(held));
    bytes_ += more;
    bytes = bytes.subspan(more);
    if (held + more < kStripe) return;
    take(rest_.data());
  }
  bytes_ += bytes.size();
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) take(bytes.data());
  std::ranges::copy(bytes, rest_.begin());
}

uint64_t Checksum::value() const {
  uint64_t hash = lanes_[2] + kPrime5;
  if (bytes_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
  }
  hash += bytes_;
  const std::byte* at = rest_.data();
  size_t left = bytes_ % kStripe;
  for (; left >= 8; left -= 8, at += 8)
    hash = std::rotl(hash ^ round(0, read<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  for (; left >= 4; left -= 4, at += 4)
    hash = std::rotl(hash ^ (read<uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
  for (; left > 0; --left, ++at)
    hash = std::rotl(hash ^ (std::to_integer<uint64_t>(*at) * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::string Checksum::text() const { return fmt::format("{:016x}", value()); }

std::string checksum_text(std::string_view text) {
  Checksum sum;
  sum.add(text);
  return sum.text();
}

}  // namespace snug
