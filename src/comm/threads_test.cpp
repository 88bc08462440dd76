#include "comm/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "comm/testing/every_call.h"
#include "comm/testing/ranks.h"

namespace snug {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}
template <typename T>
std::byte* data_of(std::vector<T>& v) {
  return std::as_writable_bytes(std::span(v)).data();
}

}  // namespace

TEST(Threads, GatherBlocksInTheOrderOfRanks) {
  std::vector<std::vector<int32_t>> got(3);
  on_ranks(3, [&](Communicator& c) {
    const std::vector<int32_t> mine{10 * c.rank(), 10 * c.rank() + 1};
    auto& all = got[static_cast<size_t>(c.rank())];
    all.resize(6);
    c.all_gather(bytes_of(mine), data_of(all), nullptr);
  });
  for (const auto& all : got) EXPECT_THAT(all, ElementsAre(0, 1, 10, 11, 20, 21));
}

TEST(Threads, GatherInPlace) {
  std::vector<std::vector<int32_t>> got(3);
  on_ranks(3, [&](Communicator& c) {
    auto& all = got[static_cast<size_t>(c.rank())];
    all.assign(3, -1);
    all[static_cast<size_t>(c.rank())] = c.rank();
    c.all_gather(bytes_of(all).subspan(static_cast<size_t>(c.rank()) * 4, 4), data_of(all),
                 nullptr);
  });
  for (const auto& all : got) EXPECT_THAT(all, ElementsAre(0, 1, 2));
}

TEST(Threads, TransposeBlocks) {
  std::vector<std::vector<int32_t>> got(3);
  on_ranks(3, [&](Communicator& c) {
    std::vector<int32_t> from(3);
    std::iota(from.begin(), from.end(), 10 * c.rank());
    auto& to = got[static_cast<size_t>(c.rank())];
    to.resize(3);
    c.all_to_all(std::as_bytes(std::span(from)).data(), data_of(to), 4, nullptr);
  });
  EXPECT_THAT(got[0], ElementsAre(0, 10, 20));
  EXPECT_THAT(got[2], ElementsAre(2, 12, 22));
}

TEST(Threads, BroadcastAndMessages) {
  std::vector<int32_t> got(4);
  on_ranks(4, [&](Communicator& c) {
    int32_t value = c.rank();
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    c.broadcast(bytes, 2, nullptr);
    EXPECT_EQ(value, 2);
    value = 100 + c.rank();
    c.barrier();
    if (c.rank() % 2 == 0) {
      c.send(bytes, c.rank() + 1, nullptr);
    } else {
      c.receive(bytes, c.rank() - 1, nullptr);
    }
    got[static_cast<size_t>(c.rank())] = value;
  });
  EXPECT_THAT(got, ElementsAre(100, 100, 102, 102));
}

TEST(Threads, EveryCallAtEverySize) {
  for (const int ranks : {1, 2, 5}) {
    on_ranks(ranks, [](Communicator& c) {
      for (const int64_t block : {0, 1, 100'001}) check_every_call(c, block);
    });
  }
}

TEST(Threads, FailureEndsCallsOfOthers) {
  std::vector<std::string> said(3);
  on_ranks(3, [&](Communicator& c) {
    try {
      if (c.rank() == 1) return c.abort("rank 1: out of luck");
      c.barrier();
    } catch (const Error& e) {
      said[static_cast<size_t>(c.rank())] = e.what();
    }
  });
  EXPECT_THAT(said, ElementsAre("rank 1: out of luck", "", "rank 1: out of luck"));
}

TEST(Threads, OtherSizesAreRefused) {
  std::vector<int> refused(2);
  on_ranks(2, [&](Communicator& c) {
    std::vector<int32_t> mine(static_cast<size_t>(1 + c.rank())), all(8);
    try {
      c.all_gather(bytes_of(mine), data_of(all), nullptr);
    } catch (const Error&) {
      ++refused[static_cast<size_t>(c.rank())];
      c.abort("sizes differ");
    }
  });
  EXPECT_THAT(refused, ElementsAre(1, 1));
}

}  // namespace snug
