// A run's memory on its device: the planned arena, and the context of driver and libraries. On a
// device that has no context of its own there is nothing to report.
//
//   DeviceMemory memory(run, executor, staging);
//   memory.require_context_within_budget();        // before the first step
//   for (const std::string& line : memory.lines()) say(line);
#pragma once

#include <string>
#include <vector>

#include "recipe/resolve.h"
#include "runtime/executor.h"

namespace snug {

class DeviceMemory {
 public:
  // `staging`: of host memory, pinned in addition to the host's arena. All of it is allocated by
  // now; the context is measured.
  DeviceMemory(const Resolved& run, const Executor& executor, int64_t staging);

  int64_t context() const { return context_; }  // as it was then
  int64_t planned_context() const;              // by rule
  // Throws does_not_fit where the budget, given or of a GPU, is not kept.
  void require_context_within_budget() const;
  // The plan, the context as it was, and all that there is now.
  std::vector<std::string> lines() const;

 private:
  bool exceeds_budget(int64_t context) const;
  std::string budget_words() const;

  const Resolved& run_;
  const Executor& executor_;
  int64_t staging_;
  int64_t context_;
};

}  // namespace snug
