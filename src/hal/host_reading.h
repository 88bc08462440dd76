// A reading where the bytes are in host memory anyway: a copy, made at once.
#pragma once

#include <chrono>

#include "hal/device.h"

namespace snug {

class HostReading final : public Reading {
 public:
  explicit HostReading(std::span<const Device::Piece> pieces) {
    for (const Device::Piece& piece : pieces) copies_.emplace_back(piece.begin(), piece.end());
  }
  std::span<const std::byte> piece(size_t i) override { return copies_.at(i); }
  double seconds_since(const Reading& earlier) const override {
    return std::chrono::duration<double>(at_ - dynamic_cast<const HostReading&>(earlier).at_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
  std::vector<std::vector<std::byte>> copies_;
};

}  // namespace snug
