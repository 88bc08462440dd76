// Runs placed programs. All pointers are resolved once (runtime/bound_program.h); from then on a run
// walks a list of kernels and allocates nothing. On a device with streams a run only enqueues.
//
// Lanes run side by side and wait for each other exactly where Order says: as threads where kernels
// run on the host (runtime/host_runner.h), as streams with events on a device that has them
// (runtime/stream_runner.h). There the runtime moves bytes between spaces; kernels compute, those of
// the host's memory on the host, called by their lane. What lives on disk is read and written the same
// way: by a lane's thread, or where a stream calls it.
//
//   auto device = cpu_device();
//   Executor executor(module, *device);
//   executor.run("micro_first");
//   float loss = executor.read_scalar<float>(executor.shared("loss_sum"));
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/op_launcher.h"
#include "runtime/program_runner.h"
#include "runtime/storage.h"
#include "runtime/test_modes.h"

namespace snug {

struct ExecutorOptions {
  TestModes test = {};
  Math math = {};
  // Where the file is made that holds what lives on disk; read by the constructor alone.
  std::string_view offload_dir = {};
  // Asked by the constructor alone; the groups outlive the executor.
  GroupOf group_of = {};
};

class Executor : public RunHooks {
 public:
  // Allocates one arena for each space that the plan uses: exactly the plan's numbers. Refuses,
  // before that, an op without a kernel and values on disk without a directory for them. Then lets
  // kernels choose their algorithms, and launches each once where stages send messages. `module` and
  // `device` outlive this.
  Executor(const Module& module, Device& device, const ExecutorOptions& options = {});
  // Waits for the device: what it was given uses arenas and calls of this.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void run(std::string_view name);
  void run(ProgramRole role) { run(module_.program(role).name); }
  // One step: every program in the order of Module::step. `before` is called before each, to feed
  // it.
  void run_step(const std::function<void(const Program& program)>& before);
  // One op alone, to measure it. What it reads is whatever is there. On the compute lane's
  // stream it begins after what was enqueued before, whatever the op's own lane.
  void enqueue(size_t program, size_t op) { launcher_.launch_in_order(program, op, 1); }
  // As a run does it: the op and those after it that its kernel takes together.
  void enqueue_batch(size_t program, size_t op) {
    launcher_.launch_in_order(program, op, batch_size(program, op));
  }
  size_t batch_size(size_t program, size_t op) const {
    return programs_.at(program).batches.at(op);
  }

  const Module& module() const { return module_; }
  Device& device() const { return device_; }
  ValueId shared(std::string_view name) const;  // throws an internal error when there is none

  // Copies, in the order of the device's work: `write` returns when `from` may be reused, `read`
  // when the bytes are there.
  void write(ValueId id, std::span<const std::byte> from);
  void read(ValueId id, std::span<std::byte> to) const;
  // The same for some of its bytes, from byte `offset` on: large values go in pieces.
  void write(ValueId id, int64_t offset, std::span<const std::byte> from);
  void read(ValueId id, int64_t offset, std::span<std::byte> to) const {
    storage_.read(id, offset, to);
  }
  template <typename T>
  void write_scalar(ValueId id, T value) {
    write(id, std::as_bytes(std::span(&value, 1)));
  }
  template <typename T>
  T read_scalar(ValueId id) const {
    T value{};
    read(id, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void zero(ValueId id);  // its storage, padding too
  std::unique_ptr<Reading> read_later(std::span<const ValueId> ids) const {
    return storage_.read_later(ids);
  }

  // For callers that read while programs run: these wait for no lane.
  //
  // A lane that no program has.
  int32_t extra_lane();
  // Shared values where the host addresses them: their bytes.
  std::span<const std::byte> host_bytes(ValueId id) const { return storage_.range(id); }
  // Others: from the device when that lane comes by, and from disk before this returns.
  void read_on_lane(ValueId id, int64_t offset, std::span<std::byte> to, int32_t lane) const {
    storage_.read_on_lane(id, offset, to, lane);
  }
  // Throws what failed on the host, called by a lane, if something did.
  void throw_what_failed() const { failure_.rethrow(); }

  // Whether the host can work on the value's own bytes: everywhere where kernels and host share
  // memory, and in the host's memory on a device that has its own; never on disk.
  bool host_addresses(ValueId id) const { return storage_.host_addresses(id); }
  // Those bytes, when the device is done with what it was given; an internal error where the host
  // cannot address them.
  std::span<std::byte> bytes(ValueId id) const { return storage_.bytes(id); }
  template <typename T>
  std::span<T> values(ValueId id) const {
    return {reinterpret_cast<T*>(bytes(id).data()),
            static_cast<size_t>(module_[id].type.shape.elements())};
  }
  template <typename T>
  T& scalar(ValueId id) const {
    return values<T>(id)[0];
  }

  int64_t planned_bytes(Space space = Space::device) const {  // what the plan says
    return storage_.planned_bytes(space);
  }
  int64_t allocated_bytes(Space space = Space::device) const {  // what was asked of the device
    return storage_.allocated_bytes(space);
  }
  // The highest byte written so far, plus one.
  int64_t measured_bytes(Space space = Space::device) const {
    return storage_.measured_bytes(space);
  }

  // From now on every run of a program adds the spans of its ops to `log`, until this is called with
  // nullptr: results stay as they are. On streams the ops of a run are recorded once more, with
  // stamps between them, and a run is waited for. Called between programs; `log` outlives it.
  void measure_spans(SpanLog* log) { runner_->measure_spans(log); }

  // nullptr: nothing lives on disk.
  const DiskFile* disk() const { return storage_.disk(); }

  // Where the device was last known to be, in words: what a failure is named by.
  std::string last_place() const { return launcher_.last_place(); }

 private:
  const Module& module_;
  Device& device_;
  HostFailure failure_;
  TestPolicy policy_;
  Storage storage_;
  DeviceLanes lanes_;
  const std::vector<BoundProgram> programs_;
  OpLauncher launcher_;
  std::unique_ptr<ProgramRunner> runner_;
};

}  // namespace snug
