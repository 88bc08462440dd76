// Watches a job of thread ranks: where every rank's lanes wait for others, and an end with names when
// no rank makes progress.
//
//   RankWatch watch(60, [&](const std::string& why) { groups.abort(why); });
//   Communicator& end = watch.end(rank, lane, group.end(rank));   // as that one, and watched
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"

namespace snug {

class RankWatch {
 public:
  // After `seconds` in which some rank waits and no call begins or ends anywhere, calls
  // stop(why), once.
  RankWatch(double seconds, std::function<void(const std::string& why)> stop);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  Communicator& end(int rank, std::string_view lane, Communicator& end);

 private:
  class End;
  struct Waiting {
    int rank;
    std::string lane;
    int64_t calls = 0;
    std::string call;  // empty: it is in none
  };
  void watch(double seconds);
  std::string who_waits() const;

  std::function<void(const std::string&)> stop_;
  std::mutex mutex_;
  std::condition_variable leaving_;
  bool left_ = false;
  int64_t events_ = 0;
  std::vector<std::unique_ptr<Waiting>> waiting_;
  std::vector<std::unique_ptr<End>> ends_;
  std::thread thread_;
};

}  // namespace snug
