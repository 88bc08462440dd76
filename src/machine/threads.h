// The threads that kernels on the CPU use, for as long as a run is open.
#pragma once

#include <cstdint>

namespace snug {

class ThreadsOfRun {
 public:
  ThreadsOfRun();
  ~ThreadsOfRun();  // as many as there were
  ThreadsOfRun(const ThreadsOfRun&) = delete;
  ThreadsOfRun& operator=(const ThreadsOfRun&) = delete;

  void use(int64_t asked) const;  // 0: as they are

 private:
  int64_t before_;
};

}  // namespace snug
