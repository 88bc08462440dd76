// What the interposed system calls (interposed_calls.cpp) do to those inside one folder: count
// them, let one fail, end the process after one, write them down.
//
//   Watch watch("/tmp/box", {.last = 7});   // until the end of scope; one at a time
//   save();                                 // the process ends after the seventh call
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "faults/disk_model.h"

namespace snug::testing {

constexpr int kKilled = 99;  // the exit code of a process that ended after its last call

struct Faults {
  int64_t failing = 0;        // this call fails, the first being 1; 0: none
  int with = 0;               // ... with this errno; 0: it is a write that writes half
  int next_write = 0;         // the errno of the next write after it; 0: it works
  int64_t last = 0;           // the process ends after this call; 0: it does not
  DiskModel* disk = nullptr;  // where changes are written down; may be null
};

class Watch {
 public:
  Watch(const std::filesystem::path& folder, Faults faults);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  const std::vector<std::string>& calls() const { return calls_; }

 private:
  friend class WatchedCall;
  std::filesystem::path folder_;
  Faults faults_;
  std::vector<std::string> calls_;
  std::map<int, std::pair<std::filesystem::path, int>> files_;  // open ones: name, node on the disk
  std::recursive_mutex mutex_;
};

// A call as the interposer meets it.
//
//   WatchedCall call("rename", {from, to});
//   if (call.fails()) return -1;                     // errno is set
//   const int result = real_rename(from, to);
//   return call.done(result, [&](DiskModel& disk) { disk.rename(from, to); });
class WatchedCall {
 public:
  WatchedCall(const char* name, const std::vector<std::filesystem::path>& paths);
  WatchedCall(const char* name, int fd);  // of an open file
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

  bool watched() const { return watch_ != nullptr; }
  bool fails();
  size_t shortened(size_t bytes) const;  // how many a write is to write
  int node() const { return node_; }     // of an open file, on the disk
  void opened(int fd);                   // or not: a number that another file may have had
  void is_node(int fd, int node);
  static void closed(int fd);

  template <typename Result, typename Record>
  Result done(Result result, const Record& record) {
    if (!watched()) return result;
    const int reason = errno;
    if (result >= 0 && watch_->faults_.disk != nullptr) record(*watch_->faults_.disk);
    end();
    errno = reason;
    return result;
  }

 private:
  void begin(const char* name, const std::vector<std::filesystem::path>& paths);
  void end() const;

  Watch* watch_ = nullptr;  // null: no watch, or outside of the folder
  std::unique_lock<std::recursive_mutex> lock_;
  int node_ = -1;
  bool is_write_ = false;
};

}  // namespace snug::testing
