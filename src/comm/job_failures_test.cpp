// A rank that dies, throws, stops or falls behind ends all of them, within seconds and with one
// message.
//
// Only what a limit is tested for is short, and long enough that a loaded machine does not reach it by
// itself; every other limit is one that no test reaches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "base/timed_test.h"
#include "comm/testing/forked_job.h"

namespace snug {
namespace {

using ::testing::AllOf;
using testing::ForkedJob;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RankEnded;
using ::testing::StartsWith;

constexpr double kNever = 600;

// Where all others wait, whatever ends is the cause at once. Those that never come back from a wait are
// ended, with the code of a device.
constexpr JobLimits kOthersWait{.join = kNever,
                                .silence = kNever,
                                .behind = kNever,
                                .leave = 0.5,
                                .settle_device = 0.2,
                                .settle = 0.2};
// Each has time to end with a code of its own.
constexpr JobLimits kNoneIsEnded = [] {
  JobLimits limits = kOthersWait;
  limits.leave = kNever;
  return limits;
}();
// All ranks fail, and the cause is decided when the last one has.
constexpr JobLimits kAllFail = [] {
  JobLimits limits = kNoneIsEnded;
  limits.settle_device = limits.settle = kNever;
  return limits;
}();
// A sign of life every 0.3 s: a rank that misses six of them is accused.
constexpr JobLimits kSilence = [] {
  JobLimits limits = kOthersWait;
  limits.silence = 2;
  return limits;
}();
// Positions are told every 0.5 s.
constexpr JobLimits kBehind = [] {
  JobLimits limits = kOthersWait;
  limits.silence = 3;
  limits.behind = 2;
  return limits;
}();

using Part = std::function<void(Job&)>;

// A rank that joins, says "ready" and works until the job ends.
ForkedJob::Work working(const Part& part, const JobLimits& limits = kOthersWait) {
  return [=](const JobPlace& place) {
    const auto job = Job::join(place, limits);
    job->run([&] {
      job->progress(3, place.rank, "step 3, backward");
      job->barrier(kNever);
      error_line("ready");
      part(*job);
      job->exchange("work that needs all ranks");
    });
  };
}

std::string without_ready(const std::string& err) {
  std::string out;
  for (const std::string& line : split(err, '\n'))
    if (line != "ready" && !line.empty()) out += line + "\n";
  return out;
}

// The one message; all others say nothing.
std::string said_by(const std::vector<RankEnded>& ranks, size_t speaker) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_TRUE(ranks[r].in_time) << "rank " << r;
    if (r == speaker) continue;
    EXPECT_THAT(without_ready(ranks[r].err), IsEmpty()) << "rank " << r;
  }
  std::string out = without_ready(ranks[speaker].err);
  EXPECT_EQ(std::ranges::count(out, '\n'), 1) << out;
  return out;
}

// The main thread comes back from no wait.
void wait_forever() {
  while (true) pause();
}

Part waits_forever(int rank) {
  return [=](Job& me) {
    if (me.rank() == rank) wait_forever();
  };
}

// Closed for the ranks that a job forks until the test opens it.
class Gate {
 public:
  Gate() { EXPECT_EQ(::pipe(ends_), 0); }
  ~Gate() { ::close(ends_[0]); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void wait() const {  // in a rank
    ::close(ends_[1]);
    char byte = 0;
    while (::read(ends_[0], &byte, 1) < 0) {
    }
  }
  void open() const { ::close(ends_[1]); }

 private:
  int ends_[2] = {};
};

}  // namespace

// Nothing shows when rank 0 has been told how far rank 2 is: a sign of life says it every second.
TEST(JobFailures, KilledRankEndsAll) {
  JobLimits limits = kOthersWait;
  limits.silence = 6;
  EXPECT_TRUE(with_more_time([&](std::chrono::milliseconds told) {
    ForkedJob job(3, working(waits_forever(2), limits));
    job.wait_for(2, "ready");
    std::this_thread::sleep_for(told);
    job.send(2, SIGKILL);
    const std::vector<RankEnded> ranks = job.wait();
    EXPECT_EQ(ranks[0].code, 5);
    EXPECT_EQ(ranks[1].code, 5);
    EXPECT_EQ(ranks[2].signal, SIGKILL);
    const std::string said = said_by(ranks, 0);
    EXPECT_THAT(said,
                AllOf(StartsWith("snug: rank 2 on "), HasSubstr(" died: its connection closed")));
    return said.find(" (step 3, backward) died") != std::string::npos;
  }));
}

TEST(JobFailures, NextRankReportsDeathOfRankZero) {
  ForkedJob job(3, working(waits_forever(0)));
  job.wait_for(0, "ready");
  job.send(0, SIGKILL);
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[1].code, 5);
  EXPECT_EQ(ranks[2].code, 5);
  EXPECT_THAT(said_by(ranks, 1), AllOf(StartsWith("snug: rank 0 on "), HasSubstr(" died")));
}

TEST(JobFailures, ThrowEndsAllWithCodeAndReason) {
  for (const int thrower : {0, 2}) {
    ForkedJob job(3, working(
                         [=](Job& me) {
                           if (me.rank() == thrower) throw bad_input("shard 7 is damaged");
                         },
                         kNoneIsEnded));
    const std::vector<RankEnded> ranks = job.wait();
    for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 4);
    EXPECT_THAT(said_by(ranks, 0), AllOf(StartsWith(fmt::format("snug: rank {} on ", thrower)),
                                         HasSubstr(" (step 3, backward): shard 7 is damaged\n")));
  }
}

TEST(JobFailures, EveryExceptionHasMessage) {
  ForkedJob job(2, working(
                       [](Job& me) {
                         if (me.rank() == 1) throw std::bad_alloc();
                       },
                       kNoneIsEnded));
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 3);
  EXPECT_THAT(said_by(ranks, 0), HasSubstr("the system has no memory left"));
}

TEST(JobFailures, CommonFailureIsReportedOnceWithoutRank) {
  ForkedJob job(4, working([](Job&) { throw usage_error("there is no model 'x'"); }, kAllFail));
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 2);
  EXPECT_EQ(said_by(ranks, 0), "snug: there is no model 'x'\n");
}

// Ranks that wait for the one that fails see a broken connection first.
TEST(JobFailures, CauseIsNamedNotConsequences) {
  ForkedJob job(3, working(
                       [](Job& me) {
                         if (me.rank() < 2) throw device_error("rank 2 closed its connection");
                         std::this_thread::sleep_for(std::chrono::milliseconds(300));
                         throw does_not_fit("no memory left");
                       },
                       kAllFail));
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 3);
  EXPECT_THAT(said_by(ranks, 0),
              AllOf(StartsWith("snug: rank 2 on "), HasSubstr(": no memory left")));
}

TEST(JobFailures, StoppedRankEndsAll) {
  ForkedJob job(3, working(waits_forever(1), kSilence));
  job.wait_for(1, "ready");
  job.send(1, SIGSTOP);
  job.wait_for(0, "snug: ");
  job.send(1, SIGCONT);  // it finds out, too
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 5);
  EXPECT_THAT(said_by(ranks, 0), AllOf(StartsWith("snug: rank 1 on "),
                                       HasSubstr("has given no sign of life for 2 s")));
}

TEST(JobFailures, NextRankReportsStopOfRankZero) {
  ForkedJob stopped(3, working(waits_forever(0), kSilence));
  stopped.wait_for(0, "ready");
  stopped.send(0, SIGSTOP);
  stopped.wait_for(1, "snug: ");
  EXPECT_THAT(without_ready(stopped.err(1)),
              AllOf(StartsWith("snug: rank 0 on "), HasSubstr("has given no sign of life")));
  EXPECT_THAT(without_ready(stopped.err(2)), IsEmpty());
  stopped.send(0, SIGKILL);
  for (const RankEnded& rank : stopped.wait()) EXPECT_TRUE(rank.in_time);
}

// As with a suspended machine: time has passed for all, and none is to blame.
TEST(JobFailures, JobContinuesWhenAllRanksPause) {
  const Gate gate;
  ForkedJob job(3, working([&](Job&) { gate.wait(); }, kSilence));
  for (int r = 0; r < 3; ++r) job.wait_for(r, "ready");
  for (int r = 0; r < 3; ++r) job.send(r, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2600));
  for (int r = 0; r < 3; ++r) job.send(r, SIGCONT);
  gate.open();
  for (const RankEnded& rank : job.wait()) EXPECT_EQ(rank.code, 0) << rank.err;
}

TEST(JobFailures, LateRankIsReportedAsHanging) {
  ForkedJob job(3, working(
                       [](Job& me) {
                         if (me.rank() == 1) wait_forever();
                         me.progress(4, 0, "step 4, forward");
                       },
                       kBehind));
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 5);
  EXPECT_THAT(said_by(ranks, 0),
              AllOf(StartsWith("snug: rank 1 on "),
                    HasSubstr("(step 3, backward) hangs: it has been there for 2 s, and rank "),
                    HasSubstr(" is at step 4, forward")));
}

TEST(JobFailures, RanksAtOnePlaceDoNotHang) {
  ForkedJob job(3, working(
                       [](Job& me) {
                         me.progress(4, 0, "step 4");
                         std::this_thread::sleep_for(std::chrono::milliseconds(3000));
                       },
                       kBehind));
  for (const RankEnded& rank : job.wait()) EXPECT_EQ(rank.code, 0) << rank.err;
}

// An engine's call that a rank waits in is cancelled; a rank that then does not leave is ended.
TEST(JobFailures, BlockedRankIsAborted) {
  JobLimits limits = kOthersWait;
  limits.leave = 3;
  ForkedJob job(3, working(
                       [](Job& me) {
                         std::promise<std::string> aborted;
                         me.on_end([&](const std::string& why) {
                           error_line("called off: " + why);
                           if (me.rank() == 1) aborted.set_value(why);
                         });
                         me.barrier(kNever);  // all can be called off
                         if (me.rank() == 2) throw bad_input("damaged");
                         const std::string why = aborted.get_future().get();  // rank 0: for ever
                         me.on_end({});
                         throw device_error("aborted: {}", why);
                       },
                       limits));
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5) << "it had to be ended";
  EXPECT_EQ(ranks[1].code, 4);
  EXPECT_EQ(ranks[2].code, 4);
  for (const int r : {0, 1})
    EXPECT_THAT(ranks[static_cast<size_t>(r)].err, HasSubstr("called off: rank 2 on "));
}

TEST(JobFailures, SilentExitIsDetected) {
  ForkedJob job(2, working([](Job& me) {
                  if (me.rank() == 1) _exit(0);
                }));
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_THAT(said_by(ranks, 0), HasSubstr("rank 1 on "));
}

TEST(JobFailures, FinishedRankFailsWaitingRanks) {
  ForkedJob job(2, [](const JobPlace& place) {
    const auto me = Job::join(place, kOthersWait);
    me->run([&] {
      if (place.rank == 0) me->exchange("is a rank there?");
    });
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_EQ(ranks[1].code, 5);
  EXPECT_THAT(ranks[0].err, HasSubstr("has ended its work, and others wait for it"));
}

TEST(JobFailures, BarrierHasTimeout) {
  ForkedJob job(2, [](const JobPlace& place) {
    const auto me = Job::join(place, kOthersWait);
    me->run([&] {
      if (place.rank == 0) me->barrier(0.2);
      wait_forever();
    });
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_EQ(ranks[1].code, 5);
  EXPECT_THAT(said_by(ranks, 0), HasSubstr("rank 0 timed out waiting for other ranks"));
}

TEST(JobFailures, InvalidMessagesEndAll) {
  ForkedJob job(2, [](const JobPlace& place) {
    if (place.rank == 0) return working([](Job&) {})(place);
    Joined joined = rendezvous(place, kNever);
    joined.lines[0].post(FrameKind::all, {"only rank 0 sends this"});
    joined.lines[0].flush();
    while (joined.lines[0].read())  // until rank 0 has ended
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_THAT(ranks[0].err,
              HasSubstr("sends what is no message: a message that only rank 0 sends"));
}

}  // namespace snug
