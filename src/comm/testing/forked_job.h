// A job whose ranks are forked from a test, each with what it prints caught.
//
//   ForkedJob job(3, [](const JobPlace& place) { ... });
//   job.send(1, SIGKILL);
//   const std::vector<RankEnded> ranks = job.wait();
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/notes.h"
#include "base/text.h"
#include "comm/job.h"

namespace snug::testing {

struct RankEnded {
  int code = -1;  // exit code; -1: a signal ended it
  int signal = 0;
  bool in_time = true;  // false: it had to be killed
  std::string err;
};

class ForkedJob {
 public:
  using Work = std::function<void(const JobPlace&)>;

  // `work` of each rank; an Error ends it as it ends snug. With an empty work it never starts.
  ForkedJob(int ranks, const Work& work, const std::function<JobPlace(JobPlace)>& change = {})
      : listener_(listen_for_ranks()) {
    for (int r = 0; r < ranks; ++r) {
      JobPlace place{.rank = r, .ranks = ranks, .address = "127.0.0.1", .port = listener_.port};
      place.listener = r == 0 ? ::dup(listener_.socket.fd()) : -1;
      place.token = "a token of tests";
      if (change) place = change(place);
      start(place, work);
      if (r == 0) ::close(place.listener);
    }
    listener_.socket = {};
  }
  ~ForkedJob() { wait(0); }
  ForkedJob(const ForkedJob&) = delete;
  ForkedJob& operator=(const ForkedJob&) = delete;

  int port() const { return listener_.port; }
  void send(int rank, int signal) const { ::kill(pids_[static_cast<size_t>(rank)], signal); }
  std::string err(int rank) const { return read_file(file(static_cast<size_t>(rank))); }
  // Until a rank has printed this; `kHung` seconds are a failure.
  void wait_for(int rank, const std::string& text) const {
    for (int i = 0; i < 100 * kHung; ++i) {
      if (err(rank).find(text) != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "rank " << rank << " has not printed '" << text << "' but: " << err(rank);
  }

  // A job that hangs is killed after so long; the slowest machine is done before.
  static constexpr int kHung = 60;
  std::vector<RankEnded> wait(double seconds = kHung) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::vector<RankEnded> out;
    for (size_t r = 0; r < pids_.size(); ++r) {
      RankEnded ended;
      int status = 0;
      while (::waitpid(pids_[r], &status, WNOHANG) == 0) {
        if (std::chrono::steady_clock::now() < until) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          continue;
        }
        ended.in_time = false;
        ::kill(pids_[r], SIGKILL);
        ::waitpid(pids_[r], &status, 0);
        break;
      }
      if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
      ended.err = read_file(file(r));
      std::filesystem::remove(file(r));
      out.push_back(ended);
    }
    pids_.clear();
    return out;
  }

 private:
  std::filesystem::path file(size_t rank) const {
    return std::filesystem::temp_directory_path() /
           fmt::format("snug-forked-{}-{}-{}", ::getpid(), port(), rank);
  }

  void start(const JobPlace& place, const Work& work) {
    const std::string path = file(pids_.size());
    const int output = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0) {
      ::close(output);
      pids_.push_back(pid);
      return;
    }
    ::dup2(output, STDERR_FILENO);
    tell_notes_to({.line = log_line});
    listener_.socket = {};
    int code = 0;
    try {
      work(place);
    } catch (const Error& error) {
      if (error.what()[0] != '\0') error_line(fmt::format("snug: {}", error.what()));
      code = static_cast<int>(error.code());
    }
    ::_exit(code);
  }

  tcp::Listener listener_;
  std::vector<pid_t> pids_;
};

}  // namespace snug::testing
