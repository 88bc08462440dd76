// Runs programs on a device with streams: lanes are streams, an op is enqueued on its lane's, and
// events order them where Order says. A program's first run walks the list of ops, the second is
// recorded, every later one is a single launch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/op_launcher.h"
#include "runtime/program_runner.h"
#include "runtime/stream_stamps.h"

namespace snug {

class StreamRunner final : public ProgramRunner {
 public:
  // All outlive this.
  StreamRunner(std::span<const BoundProgram> programs, OpLauncher& launcher, const Storage& storage,
               DeviceLanes& lanes, const RunHooks& hooks, TestPolicy& policy);

  void run(size_t program) override;
  // The ops of a run are recorded once more, with stamps between them, and a run is waited for.
  void measure_spans(SpanLog* log) override;

 private:
  struct State {
    // By op, nullptr where no other lane waits for it; none where there is one lane.
    std::vector<std::unique_ptr<LaneEvent>> events;
    bool ran = false;
    std::unique_ptr<Recording> recording;
    // While it is measured.
    std::optional<StreamStamps> stamps;
    std::unique_ptr<Recording> stamped;
  };

  bool measures() const { return spans_ && !hooks_.observe; }
  // Ops from this one on that run as one: alone where each is looked at.
  size_t together(const BoundProgram& program, size_t op) const {
    return hooks_.observe ? 1 : program.batches[op];
  }
  void enqueue(size_t index);
  void enqueue_all(size_t index);
  void wait_for_others(size_t index, size_t op);
  void tell_others(size_t index, size_t op, size_t count);

  std::span<const BoundProgram> programs_;
  OpLauncher& launcher_;
  Device& device_;
  const Module& module_;
  DeviceLanes& lanes_;
  const RunHooks& hooks_;
  TestPolicy& policy_;
  std::vector<State> states_;          // by program
  std::optional<SpanRecorder> spans_;  // while it is measured
  std::unique_ptr<Stamp> zero_;        // when that began
};

}  // namespace snug
