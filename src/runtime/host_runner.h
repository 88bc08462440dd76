// Runs programs where kernels run on the host: in list order where there is one lane or an observer,
// else lanes side by side on threads, or in a random order where a test asks.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "runtime/lanes.h"
#include "runtime/program_runner.h"
#include "runtime/span_recorder.h"

namespace snug {

class HostRunner final : public ProgramRunner {
 public:
  // All outlive this.
  HostRunner(std::span<const BoundProgram> programs, const Storage& storage, const RunHooks& hooks,
             TestPolicy& policy);

  void run(size_t program) override;
  void measure_spans(SpanLog* log) override;

 private:
  void run_in_list_order(size_t index);
  void run_lanes(const BoundProgram& program);
  void run_in_random_order(const BoundProgram& program);
  bool measures() const { return spans_ && !hooks_.observe; }
  void run_op(const BoundProgram& program, size_t at);

  std::span<const BoundProgram> programs_;
  const Storage& storage_;
  const RunHooks& hooks_;
  TestPolicy& policy_;
  std::unique_ptr<LaneThreads> threads_;  // where some program has several lanes
  std::optional<SpanRecorder> spans_;     // while it is measured
};

}  // namespace snug
