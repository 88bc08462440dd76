#include "comm/sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "comm/testing/every_call.h"
#include "comm/testing/ranks.h"

namespace snug {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs work(group, rank) of every rank at once.
template <typename Work>
void on_socket_ranks(int ranks, const Work& work, const MeshSettings& settings = {}) {
  on_ranks(ranks, [&](Communicator& end) {
    GroupBootstrap bootstrap(end);
    std::unique_ptr<Communicator> group = socket_group(bootstrap, "test", settings);
    work(std::move(group), end.rank());
  });
}

// What each rank's work throws.
template <typename Work>
std::vector<std::string> words_of(int ranks, const Work& work) {
  std::vector<std::string> out(static_cast<size_t>(ranks));
  on_socket_ranks(ranks, [&](std::unique_ptr<Communicator> group, int rank) {
    try {
      work(std::move(group), rank);
    } catch (const Error& error) {
      out[static_cast<size_t>(rank)] = error.what();
    }
  });
  return out;
}

TEST(Sockets, EveryCallAtEverySize) {
  for (const int ranks : {1, 2, 3, 5}) {
    on_socket_ranks(ranks, [](std::unique_ptr<Communicator> group, int) {
      for (const int64_t block : {0, 1, 7, 4096, 100'001}) check_every_call(*group, block);
    });
  }
}

// Those of even number and those of odd, each in an order of its own.
TEST(Sockets, PartsOfAJobAreGroups) {
  on_ranks(4, [](Communicator& end) {
    GroupBootstrap all(end);
    const int parity = end.rank() % 2;
    PartBootstrap part(all, {parity + 2, parity});
    EXPECT_EQ(part.rank(), end.rank() < 2 ? 1 : 0);
    const std::unique_ptr<Communicator> group = socket_group(part, "part");
    EXPECT_EQ(group->ranks(), 2);
    check_every_call(*group, 1000);
  });
}

// Far more than a connection holds, from all to all: sends and receives progress together.
TEST(Sockets, LargeBlocksDoNotBlockEachOther) {
  on_socket_ranks(3, [](std::unique_ptr<Communicator> group, int rank) {
    constexpr size_t kBlock = (16 << 20) + 3;
    const std::vector<std::byte> mine(3 * kBlock, static_cast<std::byte>(rank));
    std::vector<std::byte> all(3 * kBlock);
    group->all_to_all(mine.data(), all.data(), kBlock, nullptr);
    for (size_t r = 0; r < 3; ++r)
      EXPECT_EQ(
          std::memcmp(all.data() + r * kBlock, std::vector(kBlock, std::byte(r)).data(), kBlock),
          0);
  });
}

TEST(Sockets, OverTheMachinesOtherAddresses) {
  if (tcp::own_addresses().empty()) GTEST_SKIP() << "no network but loopback here";
  on_socket_ranks(3,
                  [](std::unique_ptr<Communicator> group, int) { check_every_call(*group, 1000); },
                  {.timeout_s = 20, .loopback = false});
}

TEST(Sockets, TwoGroupsSideBySide) {
  on_ranks(2, [](Communicator& end) {
    GroupBootstrap bootstrap(end);
    const auto a = socket_group(bootstrap, "a");
    const auto b = socket_group(bootstrap, "b");
    std::thread other([&] { check_every_call(*b, 50'000); });
    check_every_call(*a, 70'000);
    other.join();
  });
}

TEST(Sockets, FailureEndsEveryCall) {
  const auto said = words_of(3, [](std::unique_ptr<Communicator> group, int rank) {
    if (rank == 1) group->abort("rank 1: out of luck");
    if (rank == 2) {
      EXPECT_ANY_THROW(group->barrier());
    }
    std::byte one{};
    group->broadcast({&one, 1}, 1, nullptr);
  });
  EXPECT_THAT(said, Each("rank 1: out of luck"));
}

// By another thread, while the call waits.
TEST(Sockets, RankEndsItsOwnCall) {
  const auto said = words_of(2, [](std::unique_ptr<Communicator> group, int rank) {
    if (rank == 0) return;
    std::thread other([&] { group->abort("stop"); });
    other.join();
    group->barrier();
  });
  EXPECT_THAT(said, ElementsAre("", "stop"));
}

TEST(Sockets, GoodbyeFailsOnlyDependentRanks) {
  const auto said = words_of(3, [](std::unique_ptr<Communicator> group, int rank) {
    std::byte one{};
    if (rank == 0) return;
    if (rank == 1) poll(nullptr, 0, 50);
    for (int i = 0; i < 3; ++i) {
      if (rank == 1) group->send({&one, 1}, 2, nullptr);
      if (rank == 2) group->receive({&one, 1}, 1, nullptr);
    }
    if (rank == 2) {
      poll(nullptr, 0, 50);
      group->receive({&one, 1}, 0, nullptr);
    }
  });
  EXPECT_THAT(
      said,
      ElementsAre("", "", "test: rank 0 has left the group while rank 2 is in message of 1 bytes"));
}

TEST(Sockets, OtherCallsAreRefused) {
  const auto said = words_of(2, [](std::unique_ptr<Communicator> group, int rank) {
    std::vector<std::byte> some(8), all(16);
    if (rank == 0) group->broadcast(some, 0, nullptr);
    try {
      group->all_gather({some.data(), 4}, all.data(), nullptr);
      group->barrier();
    } catch (const Error& error) {
      group->abort(error.what());
      throw;
    }
  });
  EXPECT_THAT(said, Each("test: rank 1 is in all_gather of 4 bytes, rank 0 in broadcast of 8 "
                         "bytes"));
}

// A process of its own that is killed inside a call.
TEST(Sockets, DeadRankIsNamed) {
  struct OverPipes final : Bootstrap {  // two ranks
    int me, in, out;
    OverPipes(int rank, int from, int to) : me(rank), in(from), out(to) {}
    int rank() const override { return me; }
    int ranks() const override { return 2; }
    std::vector<std::string> exchange(std::string_view mine) override {
      const auto size = static_cast<unsigned char>(mine.size());
      EXPECT_EQ(write(out, &size, 1) + write(out, mine.data(), size), 1 + size);
      unsigned char their_size = 0;
      EXPECT_EQ(read(in, &their_size, 1), 1);
      std::string theirs(their_size, '\0');
      EXPECT_EQ(read(in, theirs.data(), theirs.size()), their_size);
      std::vector<std::string> both{std::string(mine), theirs};
      if (me == 1) std::swap(both[0], both[1]);
      return both;
    }
  };
  int down[2], up[2];
  ASSERT_EQ(pipe(down) + pipe(up), 0);
  const pid_t child = fork();
  if (child == 0) {
    OverPipes bootstrap(1, down[0], up[1]);
    const auto group = socket_group(bootstrap, "dp");
    std::byte one{};
    group->receive({&one, 1}, 0, nullptr);
    poll(nullptr, 0, 50);
    raise(SIGKILL);
  }
  OverPipes bootstrap(0, up[0], down[1]);
  const auto group = socket_group(bootstrap, "dp");
  std::vector<std::byte> mine(32), all(64);
  group->send({mine.data(), 1}, 1, nullptr);
  try {
    group->all_gather(mine, all.data(), nullptr);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_STREQ(error.what(),
                 "dp: rank 1 is gone: its connection ended while rank 0 was in all_gather of 32 "
                 "bytes");
  }
  waitpid(child, nullptr, 0);
  for (const int fd : {down[0], down[1], up[0], up[1]}) close(fd);
}

// Passes on what others tell, and shows it.
class Spy final : public Bootstrap {
 public:
  Spy(Communicator& end, std::function<void(const std::vector<std::string>&)> see)
      : inner_(end), see_(std::move(see)) {}
  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }
  std::vector<std::string> exchange(std::string_view mine) override {
    auto all = inner_.exchange(mine);
    if (++calls_ == 2) see_(all);
    return all;
  }

 private:
  GroupBootstrap inner_;
  std::function<void(const std::vector<std::string>&)> see_;
  int calls_ = 0;
};

TEST(Sockets, UnknownPeersAreRejected) {
  std::vector<tcp::Socket> unknown;
  on_ranks(2, [&](Communicator& end) {
    Spy bootstrap(end, [&](const std::vector<std::string>& places) {
      if (end.rank() != 1) return;
      const int port = std::stoi(places[0]);
      for (const size_t bytes : {0, 3, 48, 5000}) {
        tcp::Socket peer = tcp::connect_to("127.0.0.1", port, tcp::after(5));
        EXPECT_TRUE(peer);
        const std::vector<std::byte> noise(bytes, std::byte{'x'});
        EXPECT_TRUE(tcp::send_all(peer, noise, tcp::after(5)));
        unknown.push_back(std::move(peer));
      }
    });
    check_every_call(*socket_group(bootstrap, "test"), 10);
  });
}

TEST(Sockets, MissingRankIsNamed) {
  std::vector<std::string> said(3);
  on_ranks(3, [&](Communicator& end) {
    try {
      Spy bootstrap(end, [&](const std::vector<std::string>&) {
        if (end.rank() == 2) throw usage_error("changed its mind");
      });
      socket_group(bootstrap, "test", {.timeout_s = 0.3});
    } catch (const Error& error) {
      said[static_cast<size_t>(end.rank())] = error.what();
    }
  });
  EXPECT_THAT(said,
              ElementsAre("test: rank 0 waited 0.3 s for rank 2 to connect",
                          "test: rank 1 waited 0.3 s for rank 2 to connect", "changed its mind"));
}

TEST(Sockets, UnreachableRankIsNamed) {
  std::vector<std::string> said(2);
  on_ranks(2, [&](Communicator& end) {
    try {
      Spy bootstrap(end, [&](const std::vector<std::string>&) {
        if (end.rank() == 0) throw usage_error("closes its port");
      });
      socket_group(bootstrap, "test", {.timeout_s = 0.3});
    } catch (const Error& error) {
      said[static_cast<size_t>(end.rank())] = error.what();
    }
  });
  EXPECT_THAT(said[1], AllOf(HasSubstr("test: rank 1 cannot connect to rank 0 within 0.3 s: "),
                             HasSubstr("127.0.0.1 port ")));
}

}  // namespace
}  // namespace snug
