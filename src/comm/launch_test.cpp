#include "comm/launch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/job_place.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A library's thread in the launcher, that any signal may go to.
enum class OtherThread { none, before, while_held };

// A launcher in a process of its own, whose ranks are lines of the shell.
class LaunchedScript {
 public:
  explicit LaunchedScript(const std::string& script, Launch launch = {.ranks = 3, .grace = 1},
                          OtherThread other = OtherThread::none) {
    launch.command = {"/bin/sh", "-c", script};
    std::fflush(nullptr);
    for (const char* name : {"out", "err"}) write_file_atomically(file(name), "");
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(::open(file("out").c_str(), O_WRONLY | O_APPEND), STDOUT_FILENO);
    ::dup2(::open(file("err").c_str(), O_WRONLY | O_APPEND), STDERR_FILENO);
    int code = 1;
    try {
      if (other == OtherThread::before) start_thread();
      const HeldSignals signals;
      if (other == OtherThread::while_held) start_thread();
      code = ::snug::launch(launch, signals);
    } catch (const Error& error) {
      error_line(error.what());
    }
    flush_results();
    ::_exit(code);
  }
  ~LaunchedScript() {
    if (pid_ > 0) end();
    for (const char* name : {"out", "err"}) std::filesystem::remove(file(name));
  }
  LaunchedScript(const LaunchedScript&) = delete;
  LaunchedScript& operator=(const LaunchedScript&) = delete;

  void send(int signal) const { ::kill(pid_, signal); }
  std::string out() const { return read_file(file("out")); }
  std::string err() const { return read_file(file("err")); }
  void wait_for(const std::string& text) const {
    for (int i = 0; i < 1000 && out().find(text) == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Exit code, or minus the signal; -1000 where it had to be killed.
  int end() {
    int status = 0;
    for (int i = 0; i < 2000 && ::waitpid(pid_, &status, WNOHANG) == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const bool late = ::kill(pid_, SIGKILL) == 0;
    if (late) ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return late ? -1000 : WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static void start_thread() {
    std::thread([] {
      while (true) ::pause();
    }).detach();
  }
  std::filesystem::path file(const std::string& name) const {
    return std::filesystem::path(::testing::TempDir()) /
           fmt::format("snug-launch-{}-{}", owner_, name);
  }
  const pid_t owner_ = ::getpid();
  pid_t pid_ = -1;
};

}  // namespace

TEST(Launch, OnlyRankZeroIsHeard) {
  LaunchedScript job("echo out $RANK of $WORLD_SIZE; echo err $RANK at $MASTER_ADDR >&2");
  EXPECT_EQ(job.end(), 0);
  EXPECT_EQ(job.out(), "out 0 of 3\n");
  EXPECT_EQ(job.err(), "err 0 at 127.0.0.1\n");
}

TEST(Launch, OutputIsPrefixedWithRank) {
  LaunchedScript job("echo out $LOCAL_RANK; printf 'no end' >&2", {.ranks = 3, .show_all = true});
  EXPECT_EQ(job.end(), 0);
  for (const int r : {0, 1, 2}) {
    EXPECT_THAT(job.out(), HasSubstr(fmt::format("[rank {}] out {}\n", r, r)));
    EXPECT_THAT(job.err(), HasSubstr(fmt::format("[rank {}] no end\n", r)));
  }
}

TEST(Launch, RankZeroInheritsAnnouncedSocket) {
  LaunchedScript job(
      fmt::format("test -n \"${}\" || exit 3; test -n \"${}\" || exit 4\n"
                  "if [ $RANK = 0 ]; then test -S /dev/fd/${} || exit 5; fi\n"
                  "if [ $RANK = 1 ]; then test -S /dev/fd/3 && exit 6; fi; exit 0",
                  kTokenVariable, kLauncherVariable, kListenerVariable));
  EXPECT_EQ(job.end(), 0) << job.err();
}

TEST(Launch, EnvironmentIsPassedOn) {
  LaunchedScript job("echo $OMP_NUM_THREADS $HOME",
                     {.ranks = 2, .environment = {"OMP_NUM_THREADS=7", "HOME=here"}});
  EXPECT_EQ(job.end(), 0);
  EXPECT_EQ(job.out(), "7 here\n");
}

TEST(Launch, ExitCodeIsOfFirstFailure) {
  LaunchedScript job("if [ $RANK = 1 ]; then exit 4; fi; sleep 0.2; exit 3");
  EXPECT_EQ(job.end(), 4);
  EXPECT_THAT(job.err(), IsEmpty()) << "rank 0 ended by itself: it has said why";
}

TEST(Launch, LastLinesOfDeadRankAreShown) {
  LaunchedScript job(
      "if [ $RANK = 2 ]; then echo terminate called >&2; kill -9 $$; fi\n"
      "sleep 0.2; echo snug: rank 2 died >&2; exit 5");
  EXPECT_EQ(job.end(), 5);
  EXPECT_EQ(job.err(),
            "snug: rank 2 died\n      rank 2 was ended by signal 9 (Killed)\n"
            "      the last lines of rank 2:\n      | terminate called\n");
}

TEST(Launch, NextRankReportsAfterDeathOfRankZero) {
  LaunchedScript job(
      "if [ $RANK = 0 ]; then kill -9 $$; fi\n"
      "if [ $RANK = 1 ]; then echo snug: rank 0 died >&2; fi; sleep 0.2; exit 5");
  EXPECT_EQ(job.end(), 5);
  EXPECT_EQ(job.err(), "snug: rank 0 died\n      rank 0 was ended by signal 9 (Killed)\n");
}

TEST(Launch, UnresponsiveRanksAreKilled) {
  LaunchedScript job("trap '' INT TERM; if [ $RANK = 1 ]; then exit 3; fi; exec sleep 60");
  EXPECT_EQ(job.end(), 3);
  EXPECT_EQ(job.err(), "snug: rank 1 ended with exit code 3\n");
}

TEST(Launch, SignalIsForwardedOnce) {
  for (const int signal : {SIGINT, SIGTERM}) {
    LaunchedScript job(
        "trap 'echo stopping; exit 0' INT TERM; echo ready; while :; do sleep 0.05; done",
        {.ranks = 2, .show_all = true});
    for (const int r : {0, 1}) job.wait_for(fmt::format("[rank {}] ready", r));
    job.send(signal);
    EXPECT_EQ(job.end(), 0) << job.err();
    for (const int r : {0, 1})
      EXPECT_THAT(job.out(), HasSubstr(fmt::format("[rank {}] stopping\n", r)));
  }
}

TEST(Launch, EndsWithOtherThreads) {
  for (int i = 0; i < 10; ++i) {
    LaunchedScript job("if [ $RANK = 0 ]; then sleep 0.05; fi", {.ranks = 2}, OtherThread::before);
    ASSERT_EQ(job.end(), 0);
  }
}

TEST(Launch, NewThreadsReceiveNoHeldSignals) {
  LaunchedScript job("trap 'echo stopping; exit 0' TERM; echo ready; while :; do sleep 0.05; done",
                     {.ranks = 1}, OtherThread::while_held);
  job.wait_for("ready");
  job.send(SIGTERM);
  EXPECT_EQ(job.end(), 0) << job.err();
  EXPECT_THAT(job.out(), HasSubstr("stopping"));
}

TEST(Launch, SignalEndsRanksAndLauncher) {
  LaunchedScript job("echo ready; exec sleep 60");
  job.wait_for("ready");
  job.send(SIGINT);
  EXPECT_EQ(job.end(), -SIGINT);
  EXPECT_THAT(job.err(), IsEmpty());
}

TEST(Launch, MissingProgram) {
  try {
    launch({.command = {"/no/such/snug"}, .ranks = 2});
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 0 cannot be started: No such file or directory");
  }
}

// A rank that is asked to end with its launcher does so when that is killed.
TEST(Launch, RanksEndWithTheLauncher) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::setenv(kLauncherVariable, fmt::format("{}", ::getpid()).c_str(), 1);
    if (::fork() == 0) {
      end_with_launcher();
      [[maybe_unused]] const ssize_t said = ::write(ends[1], "r", 1);
    }
    ::pause();
    ::_exit(0);
  }
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "no process has the other end any more";
  ::close(ends[0]);
}

}  // namespace snug
