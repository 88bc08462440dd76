// The first failure of work that lanes call on the host: nothing is computed there after it, and the
// next run or read throws it.
#pragma once

#include <atomic>
#include <exception>
#include <utility>

namespace snug {

class HostFailure {
 public:
  // Runs `work` unless something has failed. A device's thread may call this.
  template <typename Fn>
  void guard(const Fn& work) noexcept {
    if (failed_) return;
    try {
      work();
    } catch (...) {
      keep(std::current_exception());
    }
  }
  void keep(std::exception_ptr failure) noexcept {
    failure_ = std::move(failure);
    failed_ = true;
  }
  void rethrow() const {
    if (failed_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
};

}  // namespace snug
