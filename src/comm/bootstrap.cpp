#include "comm/bootstrap.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/communicator.h"

namespace snug {
namespace {

constexpr int64_t kMostExchanged = 1 << 24;  // bytes of one rank

}  // namespace

PartBootstrap::PartBootstrap(Bootstrap& all, std::vector<int> members)
    : all_(all), members_(std::move(members)) {
  const auto me = std::ranges::find(members_, all.rank());
  if (me == members_.end()) throw internal_error("rank {} forms a group of others", all.rank());
  rank_ = static_cast<int>(me - members_.begin());
}

std::vector<std::string> PartBootstrap::exchange(std::string_view mine) {
  const std::vector<std::string> all = all_.exchange(mine);
  std::vector<std::string> out;
  for (const int member : members_) out.push_back(all.at(static_cast<size_t>(member)));
  return out;
}

int GroupBootstrap::rank() const { return group_.rank(); }
int GroupBootstrap::ranks() const { return group_.ranks(); }

// All blocks are as large as the largest.
std::vector<std::string> GroupBootstrap::exchange(std::string_view mine) {
  const auto count = static_cast<size_t>(group_.ranks());
  const auto size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(count);
  group_.all_gather(std::as_bytes(std::span(&size, 1)),
                    std::as_writable_bytes(std::span(sizes)).data(), nullptr);
  const int64_t block = std::ranges::max(sizes);
  if (std::ranges::min(sizes) < 0 || block > kMostExchanged)
    throw device_error("ranks exchange up to {} bytes, but {} are announced", kMostExchanged,
                       block);
  std::string padded(mine);
  padded.resize(static_cast<size_t>(block));
  std::string all(static_cast<size_t>(block) * count, '\0');
  group_.all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(all)).data(),
                    nullptr);
  std::vector<std::string> out;
  for (size_t r = 0; r < count; ++r)
    out.push_back(all.substr(r * static_cast<size_t>(block), static_cast<size_t>(sizes[r])));
  return out;
}

}  // namespace snug
