#include "base/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace snug {
namespace {

TEST(Checksum, IsXxh64) {
  EXPECT_EQ(checksum_text(""), "ef46db3751d8e999");
  EXPECT_EQ(checksum_text("a"), "d24ec4f1a98c6e5b");
  EXPECT_EQ(checksum_text("abc"), "44bc2cf5ad770999");
  EXPECT_EQ(checksum_text("Nobody inspects the spammish repetition"), "fbcea83c8a378bf1");
}

TEST(Checksum, IsTheSameInAnyPieces) {
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 251);
  Checksum whole;
  whole.add(bytes);
  for (const size_t piece : {1, 5, 31, 32, 33, 64, 999}) {
    Checksum sum;
    for (size_t at = 0; at < bytes.size(); at += piece)
      sum.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    EXPECT_EQ(sum.value(), whole.value()) << piece;
  }
}

TEST(Checksum, SeesEveryBit) {
  std::vector<std::byte> bytes(77);
  const auto of = [&] {
    Checksum sum;
    sum.add(bytes);
    return sum.value();
  };
  const uint64_t plain = of();
  for (std::byte& byte : bytes) {
    byte ^= std::byte{4};
    EXPECT_NE(of(), plain);
    byte ^= std::byte{4};
  }
}

}  // namespace
}  // namespace snug
