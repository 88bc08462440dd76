// Jobs that go well, and those that do not come together. What happens when a rank fails later is in
// job_failures_test.cpp.
#include "comm/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/testing/forked_job.h"

namespace snug {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ForkedJob;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RankEnded;

constexpr JobLimits kPatient{.join = 10};

void require(bool holds, const char* what) {
  if (!holds) throw internal_error("{}", what);
}

// Joins and leaves.
void visit_job(const JobPlace& place) {
  const auto job = Job::join(place, kPatient);
  job->leave();
}
void visit_briefly(const JobPlace& place) { Job::join(place, {.join = 0.4})->leave(); }

void expect_all_well(const std::vector<RankEnded>& ranks) {
  for (const RankEnded& rank : ranks) {
    EXPECT_EQ(rank.code, 0) << rank.err;
    EXPECT_THAT(rank.err, IsEmpty());
  }
}

// In place of MPI: two ranks tell each other in files.
class FileBootstrap final : public Bootstrap {
 public:
  explicit FileBootstrap(const JobPlace& place) : place_(place) {}
  int rank() const override { return place_.rank; }
  int ranks() const override { return place_.ranks; }
  std::vector<std::string> exchange(std::string_view mine) override {
    write_file_atomically(path(rank()), mine);
    std::vector<std::string> out;
    for (int r = 0; r < ranks(); ++r) {
      while (!std::filesystem::exists(path(r)))
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      out.push_back(read_file(path(r)));
    }
    return out;
  }
  void remove() const { std::filesystem::remove(path(rank())); }

 private:
  std::filesystem::path path(int rank) const {
    return std::filesystem::path(::testing::TempDir()) /
           fmt::format("snug-mpi-{}-{}-{}", getppid(), place_.port, rank);
  }
  const JobPlace& place_;
};

// A client of rank 0 that is no rank.
tcp::Socket connect_unknown(int port, std::string_view says) {
  tcp::Socket out = tcp::connect_to("127.0.0.1", port, tcp::after(5));
  EXPECT_TRUE(out);
  EXPECT_TRUE(tcp::send_all(out, std::as_bytes(std::span(says)), tcp::after(1)));
  return out;
}

}  // namespace

TEST(Job, RanksTellEachOther) {
  ForkedJob job(4, [](const JobPlace& place) {
    const auto me = Job::join(place, kPatient);
    require(me->rank() == place.rank && me->ranks() == 4, "rank");
    require(me->local_rank() == place.rank && me->local_ranks() == 4, "all are on one host");
    const auto all = me->exchange(fmt::format("text of {}", me->rank()));
    require(all == std::vector<std::string>{"text of 0", "text of 1", "text of 2", "text of 3"},
            "exchange");
    for (int i = 0; i < 50; ++i)
      require(me->gather(i * me->rank()) == std::vector<int64_t>{0, i, 2 * i, 3 * i}, "gather");
    require(me->sum(me->rank() - 1) == 2, "sum");
    me->barrier(5);
    me->require_alike("options", "--batch 4\n--seq 8");
    const std::string large((1 << 20) - 100, static_cast<char>('a' + me->rank()));
    require(me->exchange(large).at(3) == std::string(large.size(), 'd'), "large");
    me->leave();
  });
  expect_all_well(job.wait());
}

TEST(Job, SingleRankNeedsNoPeers) {
  const auto job = Job::join({.rank = 0, .ranks = 1}, {});
  EXPECT_THAT(job->exchange("alone"), ElementsAre("alone"));
  EXPECT_EQ(job->sum(7), 7);
  job->require_alike("options", "x");
  EXPECT_STREQ(job->fail(usage_error("why")).what(), "why");
  job->leave();
}

// As mpirun starts them on one host: no address, but a name.
TEST(Job, RanksOfOneHostMeetAtAName) {
  const std::string name = fmt::format("test-{}", getpid());
  ForkedJob job(3, visit_job, [&](JobPlace place) {
    place.address = "";
    place.local_name = name;
    return place;
  });
  expect_all_well(job.wait());
}

TEST(Job, MpiProvidesAddressOfRankZero) {
  ForkedJob told(
      2,
      [](const JobPlace& place) {
        const auto job =
            Job::join(place, kPatient, [&] { return std::make_unique<FileBootstrap>(place); });
        require(job->sum(1) == 2, "sum");
        job->leave();
        FileBootstrap(place).remove();
      },
      [](JobPlace place) {
        place.address = "";
        return place;
      });
  expect_all_well(told.wait());
  try {
    Job::join({.rank = 1, .ranks = 2, .how = "mpirun"}, {.join = 1});
    FAIL() << "no address was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("nothing says where rank 0 is"));
  }
}

TEST(Job, UnknownPeersAreDropped) {
  ForkedJob job(2, [](const JobPlace& place) {
    if (place.rank == 0) return visit_job(place);
    const tcp::Socket web = connect_unknown(place.port, "GET / HTTP/1.1\r\n\r\n");
    const tcp::Socket silent = connect_unknown(place.port, "");
    const tcp::Socket half = connect_unknown(
        place.port, frame_bytes(FrameKind::hello, std::vector<std::string>{"1"}).substr(0, 9));
    const tcp::Socket other = connect_unknown(
        place.port, frame_bytes(FrameKind::goodbye, std::vector<std::string>{"1", "2"}));
    const tcp::Socket guest = connect_unknown(
        place.port,
        frame_bytes(FrameKind::hello, std::vector<std::string>{"1", "guess", "1", "2", "h", "9"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    visit_job(place);
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 0) << ranks[0].err;
  EXPECT_EQ(ranks[1].code, 0) << ranks[1].err;
  EXPECT_THAT(ranks[0].err, HasSubstr("a connection from 127.0.0.1 was dropped"));
  EXPECT_EQ(std::ranges::count(ranks[0].err, '\n'), 1) << "said once: " << ranks[0].err;
}

TEST(Job, WrongTokenIsRefused) {
  ForkedJob job(2, visit_briefly, [](JobPlace place) {
    if (place.rank == 1) place.token = "a tokem of tests";
    return place;
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[1].code, 2);
  EXPECT_THAT(ranks[1].err, HasSubstr("refuses rank 1: its token is that of another job"));
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_THAT(ranks[0].err,
              AllOf(HasSubstr("rank 1 of 2 did not come"), HasSubstr("its token is not this job's"),
                    Not(HasSubstr("a token of tests"))));
}

TEST(Job, TokensAreComparedToTheirEnd) {
  EXPECT_TRUE(same_token("", ""));
  EXPECT_TRUE(same_token("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcd", "xbc"}) {
    EXPECT_FALSE(same_token(other, "abc")) << other;
    EXPECT_FALSE(same_token("abc", other)) << other;
  }
  EXPECT_EQ(random_token().size(), 32U);
  EXPECT_NE(random_token(), random_token());
}

TEST(Job, MissingRankIsNamedAfterTimeout) {
  ForkedJob job(4, [](const JobPlace& place) {
    if (place.rank == 1 || place.rank == 3) return;
    visit_briefly(place);
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_THAT(ranks[0].err,
              HasSubstr(fmt::format("ranks 1 and 3 of 4 did not come to rank 0 at 127.0.0.1:{} in "
                                    "0.4 s",
                                    job.port())));
  EXPECT_EQ(ranks[2].code, 5);
  EXPECT_THAT(ranks[2].err, IsEmpty()) << "rank 0 has said it";
}

TEST(Job, DeadWaitingRankIsNotWaitedFor) {
  ForkedJob job(3, [](const JobPlace& place) {
    if (place.rank == 2) std::this_thread::sleep_for(std::chrono::seconds(30));
    visit_job(place);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  job.send(1, SIGKILL);
  const std::vector<RankEnded> ranks = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    job.send(2, SIGKILL);
    return job.wait(5);
  }();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_THAT(ranks[0].err, HasSubstr("ended before all ranks had come"));
}

TEST(Job, DuplicateRankIsRefusedByName) {
  ForkedJob job(3, visit_briefly, [](JobPlace place) {
    if (place.rank == 2) place.rank = 1;
    return place;
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_THAT(ranks[0].err, AllOf(HasSubstr("rank 2 of 3 did not come"),
                                  HasSubstr("rank 1 came twice: process ")));
}

TEST(Job, MismatchedRankCountEndsJob) {
  ForkedJob job(3, visit_job, [](JobPlace place) {
    if (place.rank == 2) place.ranks = 4;
    return place;
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 2);
  EXPECT_THAT(ranks[0].err, HasSubstr("is one of 4 ranks, rank 0 on "));
  EXPECT_EQ(ranks[1].code, 5);
  EXPECT_THAT(ranks[1].err, IsEmpty());
}

TEST(Job, UnreachableAddress) {
  const auto join_at = [](const std::string& address, int port) {
    try {
      Job::join({.rank = 1, .ranks = 2, .address = address, .port = port}, {.join = 0.2});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::device);
      return std::string(error.what());
    }
    return std::string("joined");
  };
  const int free = listen_for_ranks().port;  // and closed again
  EXPECT_EQ(
      join_at("127.0.0.1", free),
      fmt::format("rank 1 found no rank 0 at 127.0.0.1:{} in 0.2 s: Connection refused", free));
  EXPECT_THAT(join_at("no-such-host.invalid", 9),
              HasSubstr("rank 1 found no rank 0 at no-such-host.invalid:9 in 0.2 s: "
                        "no-such-host.invalid is not known"));
}

TEST(Job, PortInUseIsReported) {
  const tcp::Listener other = listen_for_ranks();
  try {
    Job::join({.rank = 0, .ranks = 2, .address = "127.0.0.1", .port = other.port}, {.join = 1});
    FAIL() << "two listen";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("rank 0 cannot listen at 127.0.0.1:{}: "
                                                    "Address already in use",
                                                    other.port)));
    EXPECT_THAT(error.hint(), HasSubstr("give another MASTER_PORT"));
  }
}

TEST(Job, MismatchNamesRankAndDifference) {
  ForkedJob job(3, [](const JobPlace& place) {
    const auto me = Job::join(place, kPatient);
    me->run([&] {
      me->require_alike("data", "the same");
      me->require_alike("options", place.rank == 2 ? "--batch 4\n--seq 16" : "--batch 4\n--seq 8");
    });
  });
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 2);
  EXPECT_THAT(ranks[0].err, AllOf(HasSubstr("the ranks differ in their options: rank 2 on "),
                                  HasSubstr("has '--seq 16', rank 0 on "), HasSubstr("'--seq 8'")));
  EXPECT_THAT(ranks[1].err + ranks[2].err, IsEmpty()) << "one rank says it";
}

// Of several MiB, which no exchange would carry.
TEST(Job, LongTextsAreComparedToo) {
  ForkedJob job(2, [](const JobPlace& place) {
    const auto me = Job::join(place, kPatient);
    me->run([&] {
      std::string text;
      for (int line = 0; line < 300'000; ++line) text += fmt::format("line {}\n", line);
      me->require_alike("lines", text);
      if (place.rank == 1) text += "one more\n";
      me->require_alike("lines", text);
    });
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_THAT(ranks[0].err, HasSubstr("the ranks differ in their lines: rank 1 on "));
  EXPECT_THAT(ranks[0].err, Not(HasSubstr("'line"))) << "not one of those that are the same";
}

TEST(Job, LimitsAreReadFromEnvironment) {
  const auto limits = [](const char* value) {
    return job_limits([=](const char* name) {
      return std::string_view(name) == "SNUG_JOB_SILENCE" ? value : nullptr;
    });
  };
  EXPECT_EQ(limits(nullptr).silence, 30);
  EXPECT_EQ(limits("2.5").silence, 2.5);
  EXPECT_EQ(limits("2.5").join, 60);
  EXPECT_THROW(limits("soon"), Error);
  EXPECT_THROW(limits("-1"), Error);
}

}  // namespace snug
