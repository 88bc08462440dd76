// A rank that dies, throws, stops or stays behind ends all of them, within seconds and with one
// message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "comm/testing/forked_job.h"

namespace snug {
namespace {

using ::testing::AllOf;
using testing::ForkedJob;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RankEnded;
using ::testing::StartsWith;

constexpr JobLimits kShort{.join = 10, .silence = 0.8, .behind = 60, .leave = 0.5};

using Part = std::function<void(Job&)>;

// A rank that joins, says "ready" and works until the job ends.
ForkedJob::Work working(const Part& part, const JobLimits& limits = kShort) {
  return [=](const JobPlace& place) {
    const auto job = Job::join(place, limits);
    job->run([&] {
      job->progress(3, place.rank, "step 3, backward");
      job->barrier(10);
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

void wait_in_vain(Job& job) {
  if (job.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
}

}  // namespace

TEST(JobFailures, AKilledRankEndsAll) {
  ForkedJob job(3, working([](Job& me) {
                  if (me.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(60));
                }));
  job.wait_for(2, "ready");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // its progress has been told
  job.send(2, SIGKILL);
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_EQ(ranks[1].code, 5);
  EXPECT_EQ(ranks[2].signal, SIGKILL);
  EXPECT_THAT(said_by(ranks, 0),
              AllOf(StartsWith("snug: rank 2 on "),
                    HasSubstr(" (step 3, backward) died: its connection closed")));
}

TEST(JobFailures, WhenRankZeroIsKilledTheNextSaysIt) {
  ForkedJob job(3, working([](Job& me) {
                  if (me.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(60));
                }));
  job.wait_for(0, "ready");
  job.send(0, SIGKILL);
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[1].code, 5);
  EXPECT_EQ(ranks[2].code, 5);
  EXPECT_THAT(said_by(ranks, 1), AllOf(StartsWith("snug: rank 0 on "), HasSubstr(" died")));
}

TEST(JobFailures, ARankThatThrowsEndsAllWithItsCodeAndReason) {
  for (const int thrower : {0, 2}) {
    ForkedJob job(3, working([=](Job& me) {
                    if (me.rank() == thrower) throw bad_input("shard 7 is damaged");
                  }));
    const std::vector<RankEnded> ranks = job.wait();
    for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 4);
    EXPECT_THAT(said_by(ranks, 0), AllOf(StartsWith(fmt::format("snug: rank {} on ", thrower)),
                                         HasSubstr(" (step 3, backward): shard 7 is damaged\n")));
  }
}

TEST(JobFailures, WhateverIsThrownHasASentence) {
  ForkedJob job(2, working([](Job& me) {
                  if (me.rank() == 1) throw std::bad_alloc();
                }));
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 3);
  EXPECT_THAT(said_by(ranks, 0), HasSubstr("the system has no memory left"));
}

TEST(JobFailures, WhatAllThrowIsSaidOnceWithoutARank) {
  ForkedJob job(4, working([](Job&) { throw usage_error("there is no model 'x'"); }));
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 2);
  EXPECT_EQ(said_by(ranks, 0), "snug: there is no model 'x'\n");
}

// Ranks that wait for the one that fails see a broken connection first.
TEST(JobFailures, TheCauseIsNamedAndNotWhatFollows) {
  ForkedJob job(3, working([](Job& me) {
                  if (me.rank() < 2) throw device_error("rank 2 closed its connection");
                  std::this_thread::sleep_for(std::chrono::milliseconds(300));
                  throw does_not_fit("no memory left");
                }));
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 3);
  EXPECT_THAT(said_by(ranks, 0),
              AllOf(StartsWith("snug: rank 2 on "), HasSubstr(": no memory left")));
}

TEST(JobFailures, AStoppedRankEndsAll) {
  ForkedJob job(3, working(wait_in_vain));
  job.wait_for(1, "ready");
  job.send(1, SIGSTOP);
  job.wait_for(0, "snug: ");
  job.send(1, SIGCONT);  // it finds out, too
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 5);
  EXPECT_THAT(said_by(ranks, 0), AllOf(StartsWith("snug: rank 1 on "),
                                       HasSubstr("has given no sign of life for 0.8 s")));
}

TEST(JobFailures, WhenRankZeroStopsTheNextSaysIt) {
  ForkedJob stopped(3, working([](Job& me) {
                      if (me.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(60));
                    }));
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
TEST(JobFailures, RanksThatAllStopGoOn) {
  ForkedJob job(3,
                working([](Job&) { std::this_thread::sleep_for(std::chrono::milliseconds(700)); }));
  for (int r = 0; r < 3; ++r) job.wait_for(r, "ready");
  for (int r = 0; r < 3; ++r) job.send(r, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  for (int r = 0; r < 3; ++r) job.send(r, SIGCONT);
  for (const RankEnded& rank : job.wait()) EXPECT_EQ(rank.code, 0) << rank.err;
}

TEST(JobFailures, ARankThatStaysBehindHangs) {
  JobLimits limits = kShort;
  limits.behind = 0.5;
  ForkedJob job(3, working(
                       [](Job& me) {
                         if (me.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
                         me.progress(4, 0, "step 4, forward");
                       },
                       limits));
  const std::vector<RankEnded> ranks = job.wait();
  for (const RankEnded& rank : ranks) EXPECT_EQ(rank.code, 5);
  EXPECT_THAT(said_by(ranks, 0),
              AllOf(StartsWith("snug: rank 1 on "),
                    HasSubstr("(step 3, backward) hangs: it has been there for 0.5 s, and rank "),
                    HasSubstr(" is at step 4, forward")));
}

TEST(JobFailures, RanksAtOnePlaceDoNotHang) {
  JobLimits limits = kShort;
  limits.behind = 0.8;  // a rank's position is told within 0.2 s
  ForkedJob job(3, working(
                       [](Job& me) {
                         me.progress(4, 0, "step 4");
                         std::this_thread::sleep_for(std::chrono::milliseconds(1300));
                       },
                       limits));
  for (const RankEnded& rank : job.wait()) EXPECT_EQ(rank.code, 0) << rank.err;
}

// What a rank waits in, an engine's call, is called off; whoever does not leave even then is ended.
TEST(JobFailures, ARankThatWaitsElsewhereIsCalledOff) {
  ForkedJob job(3, working([](Job& me) {
                  if (me.rank() == 2) throw bad_input("damaged");
                  std::promise<std::string> aborted;
                  me.on_end([&](const std::string& why) {
                    error_line("called off: " + why);
                    if (me.rank() == 1) aborted.set_value(why);
                  });
                  const std::string why = aborted.get_future().get();  // rank 0 waits for ever
                  me.on_end({});
                  throw device_error("aborted: {}", why);
                }));
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5) << "it had to be ended";
  EXPECT_EQ(ranks[1].code, 4);
  EXPECT_EQ(ranks[2].code, 4);
  for (const int r : {0, 1})
    EXPECT_THAT(ranks[static_cast<size_t>(r)].err, HasSubstr("called off: rank 2 on "));
}

TEST(JobFailures, ARankThatLeavesWithoutAWordIsMissed) {
  ForkedJob job(2, working([](Job& me) {
                  if (me.rank() == 1) _exit(0);
                }));
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_THAT(said_by(ranks, 0), HasSubstr("rank 1 on "));
}

TEST(JobFailures, ARankThatIsDoneWhileOthersWaitForIt) {
  ForkedJob job(2, [](const JobPlace& place) {
    const auto me = Job::join(place, kShort);
    me->run([&] {
      if (place.rank == 0) me->exchange("is anybody there?");
    });
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_EQ(ranks[1].code, 5);
  EXPECT_THAT(ranks[0].err, HasSubstr("has ended its work, and others wait for it"));
}

TEST(JobFailures, ABarrierHasAnEnd) {
  ForkedJob job(2, [](const JobPlace& place) {
    const auto me = Job::join(place, kShort);
    me->run([&] {
      if (place.rank == 0) me->barrier(0.2);
      std::this_thread::sleep_for(std::chrono::seconds(60));
    });
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_EQ(ranks[1].code, 5);
  EXPECT_THAT(said_by(ranks, 0), HasSubstr("rank 0 waits in vain for other ranks"));
}

TEST(JobFailures, ARankThatSendsNonsenseEndsAll) {
  ForkedJob job(2, [](const JobPlace& place) {
    if (place.rank == 0) return working([](Job&) {})(place);
    Joined joined = rendezvous(place, 5);
    joined.lines[0].post(FrameKind::all, {"only rank 0 sends this"});
    joined.lines[0].flush();
    std::this_thread::sleep_for(std::chrono::seconds(1));
  });
  const std::vector<RankEnded> ranks = job.wait();
  EXPECT_EQ(ranks[0].code, 5);
  EXPECT_THAT(ranks[0].err,
              HasSubstr("sends what is no message: a message that only rank 0 sends"));
}

}  // namespace snug
