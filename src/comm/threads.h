// Ranks that are threads of one process: what a test needs to run a whole job.
//
//   ThreadGroup group(4);
//   for (int r = 0; r < 4; ++r) threads.emplace_back([&, r] { run_rank(group.end(r)); });
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace snug {

class ThreadGroup {
 public:
  explicit ThreadGroup(int ranks);
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  Communicator& end(int rank);

 private:
  class End;
  struct Offer {  // what a rank shows to the others while all are in one call
    const std::byte* from = nullptr;
    int64_t bytes = 0;
    int call = 0;
  };

  struct Messages {  // from one rank to another
    std::deque<Offer> shown;
    int64_t sent = 0, taken = 0;
  };

  // Shows `mine`, waits for all, calls take(offers), waits for all again.
  template <typename Take>
  void meet(int rank, const Offer& mine, const Take& take);
  void wait_for_all(std::unique_lock<std::mutex>& lock);
  void abort(std::string_view why);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Offer> offers_;       // by rank
  std::vector<Messages> messages_;  // by sender and receiver
  int waiting_ = 0;
  int64_t round_ = 0;
  std::string failure_;  // why all of them end; empty: no rank failed
  std::vector<std::unique_ptr<End>> ends_;
};

}  // namespace snug
