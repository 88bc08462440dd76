// The thread of a job in each of its processes: it carries exchanges, sends signs of life, and ends
// the process when a rank died, threw, fell silent or fell behind.
//
// Rank 0 is connected to all others and decides; the others do what it says, and end by themselves
// when it is gone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/rendezvous.h"

namespace snug {

struct JobLimits {      // in seconds
  double join = 60;     // for all ranks to come (SNUG_JOB_TIMEOUT)
  double silence = 30;  // without a sign of life (SNUG_JOB_SILENCE)
  double behind =
      600;           // of one rank, at the same place, while another is further (SNUG_JOB_BEHIND)
  double leave = 3;  // for a process to end by itself when the job has failed
  // Failures come in at once: of the rank that failed, and of those that waited for it. The first is
  // the cause, if it comes in this time; all so far may be consequences, or one is not.
  double settle_device = 2, settle = 0.2;
};
JobLimits job_limits(const Lookup& variable);

// How far a rank is: ranks make the same sequence of positions.
struct JobPosition {
  int64_t step = 0;
  int64_t part = 0;   // inside the step, in order
  std::string doing;  // "step 12, backward"
  bool operator==(const JobPosition&) const = default;
};

struct JobFailure {
  ExitCode code = ExitCode::device;
  std::string sentence, hint;
};

class JobWatch : public std::enable_shared_from_this<JobWatch> {
 public:
  JobWatch(int rank, Joined joined, const JobLimits& limits);
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;
  // Its own thread; it ends when leave() has succeeded or the last owner but the thread is gone.
  void start();

  // Every rank's text. Throws the job's failure, and where not all have come until the deadline.
  std::vector<std::string> exchange(std::string_view mine, std::optional<tcp::Deadline> until);
  void progress(int64_t step, int64_t part, std::string_view doing);
  void throw_if_ended();
  // Called once when the job fails, by a thread of its own. Returns when a call under way has ended.
  void on_end(std::function<void(const std::string& why)> call);
  // Of this rank. Waits until the job has ended and a rank has said why: the exit code. Nothing: rank
  // 0 does not answer.
  std::optional<ExitCode> report(const JobFailure& failure);
  // Waits until all ranks are here. Throws the job's failure.
  void leave();
  // This rank is gone without a word.
  void abandon();

  const std::vector<RankHost>& hosts() const { return hosts_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {  // rank 0's knowledge of each rank, itself included
    ControlLine line;
    Clock::time_point heard, moved;
    JobPosition at;
    std::optional<std::string> offer;
    std::optional<JobFailure> failure;
    bool left = false;
    bool died = false;
  };

  void run();
  void wait_for_events(double seconds);
  void wake() const;
  void handle_lines();
  void handle_at_hub(size_t rank, const Frame& frame);
  void handle_at_rank(const Frame& frame);
  void lost(size_t rank);
  void send_beats();
  void complete_exchange();
  void complete_leaving();
  void check_silence();
  void check_behind();
  void settle_failures();
  void fail_by(size_t rank, const std::string& what_happened);
  void end(const JobFailure& failure, bool say);
  void end_process();
  std::string name_of(size_t rank) const;
  [[noreturn]] void throw_failure() const;
  bool is_hub() const { return rank_ == 0; }
  Peer& me() { return peers_[static_cast<size_t>(rank_)]; }

  const int rank_;
  const JobLimits limits_;
  const std::vector<RankHost> hosts_;
  int wake_fd_ = -1;

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::vector<Peer> peers_;  // by rank; the others know rank 0 and themselves
  std::optional<std::vector<std::string>> exchanged_;
  std::optional<JobFailure> ended_;
  std::optional<Clock::time_point> settle_at_;  // when what failed first is decided
  bool stopped_ = false;                        // the thread has nothing left to do
  bool all_left_ = false;
  Clock::time_point beaten_{}, woke_{};  // the last sign of life, the last turn of the thread
  JobPosition beaten_at_;

  std::mutex call_mutex_;  // while the call is made
  std::function<void(const std::string&)> on_end_;
};

}  // namespace snug
