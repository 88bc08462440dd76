// Runs placed programs. All pointers are resolved once; from then on a run walks a list of kernels
// and allocates nothing. On a device with streams a run only enqueues: a program's first run walks
// the list, the second is recorded, every later one is a single launch.
//
// Lanes run side by side and wait for each other exactly where Order says: as threads where kernels
// run on the host (runtime/lanes.h), as streams with events on a device that has them. There the
// runtime moves bytes between spaces; kernels compute, those of the host's memory on the host, where
// their lane calls them. What lives on disk is read and written the same way: by a lane's thread, or
// where a stream calls it.
//
//   auto device = cpu_device();
//   Executor executor(module, *device);
//   executor.run("micro_first");
//   float loss = executor.read_scalar<float>(executor.shared("loss_sum"));
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "hal/device.h"
#include "hal/disk_file.h"
#include "ir/op_def.h"
#include "ir/order.h"
#include "ir/program.h"
#include "ir/span.h"
#include "runtime/lanes.h"

namespace snug {

struct ExecutorOptions {
  // Test mode: overwrites each value with NaN when its lifetime ends. Results must not change. On a
  // device with streams all lanes are one then, in list order.
  bool poison_dead = false;
  // Test mode, where kernels run on the host: instead of lanes side by side, one op after another
  // in a random order of those that the lanes allow, another one in each run. With poison_dead a
  // value is overwritten behind its last use in that order.
  std::optional<uint64_t> order_seed = {};
  // Test mode: in programs with several lanes, random pauses before ops, up to a few hundred
  // microseconds. Others in each run; on streams in each that is enqueued, and a recording keeps its
  // own.
  std::optional<uint64_t> delay_seed = {};
  Math math = {};
  // Where the file is made that holds what lives on disk; read by the constructor alone.
  std::string_view offload_dir = {};
  // The group of ranks that a lane's collectives go to: one for each lane. Asked by the constructor
  // alone; they outlive the executor.
  std::function<Communicator&(std::string_view lane, std::string_view axis)> group_of = {};
};

class Executor {
 public:
  // Allocates one arena for each space that the plan uses: exactly the plan's numbers. Refuses,
  // before that, an op without a kernel and values on disk without a directory for them. Then lets
  // kernels choose their algorithms, and launches each once where stages send messages. `module` and
  // `device` outlive this.
  Executor(const Module& module, Device& device, ExecutorOptions options = {});
  // Waits for the device: what it was given uses arenas and calls of this.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void run(std::string_view name);
  void run(ProgramRole role) { run(module_.program(role).name); }
  // One step: every program in the order of Module::step. `before` is called before each, to feed
  // it.
  void run_step(const std::function<void(const Program& program)>& before);
  // One op alone, for those who measure. What it reads is whatever is there. On the compute lane's
  // stream it begins after what was enqueued before, whatever the op's own lane.
  void enqueue(size_t program, size_t op);
  // As a run does it: the op and those after it that its kernel takes together.
  void enqueue_batch(size_t program, size_t op);
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
  void read(ValueId id, int64_t offset, std::span<std::byte> to) const;
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
  std::unique_ptr<Reading> read_later(std::span<const ValueId> ids) const;

  // Called before an op that writes one of the values that go on from step to step is given to its
  // lane, and before `write`: whoever reads them beside the programs (runtime/value_stream.h) has it
  // return when that value may change. Any lane may call it. Set and cleared between programs.
  std::function<void(ValueId)> before_write;

  // For whoever reads beside the programs: these wait for no lane.
  //
  // A lane that no program has.
  int32_t lane_beside();
  // Shared values where the host addresses them: their bytes.
  std::span<const std::byte> home(ValueId id) const;
  // Others: from the device when that lane comes by, and from disk before this returns.
  void read_beside(ValueId id, int64_t offset, std::span<std::byte> to, int32_t lane) const;
  // Throws what failed on the host behind the device's back, if something did.
  void throw_what_failed() const;

  // Whether the host can work on the value's own bytes: everywhere where kernels and host share
  // memory, and in the host's memory on a device that has its own; never on disk.
  bool host_addresses(ValueId id) const;
  // Those bytes, when the device is done with what it was given; an internal error where the host
  // cannot address them.
  std::span<std::byte> bytes(ValueId id) const;
  template <typename T>
  std::span<T> values(ValueId id) const {
    return {reinterpret_cast<T*>(bytes(id).data()),
            static_cast<size_t>(module_[id].type.shape.elements())};
  }
  template <typename T>
  T& scalar(ValueId id) const {
    return values<T>(id)[0];
  }

  int64_t planned_bytes(Space space = Space::device) const;    // what the plan says
  int64_t allocated_bytes(Space space = Space::device) const;  // what was asked of the device
  // The highest byte written so far, plus one.
  int64_t measured_bytes(Space space = Space::device) const;

  // From now on every run of a program adds the spans of its ops to `log`, until this is called with
  // nullptr: results stay as they are. On streams the ops of a run are recorded once more, with
  // stamps between them, and a run is waited for. Called between programs; `log` outlives it.
  void measure_spans(SpanLog* log);

  // nullptr: nothing lives on disk.
  const DiskFile* disk() const { return disk_.get(); }

  // Where the device was last known to be, in words: what a failure is named by.
  std::string last_place() const;

  // Called after every op, with the program's and the op's index: checks and profiles look in here.
  // While it is set, every op is waited for.
  std::function<void(size_t program, size_t op)> observe;

 private:
  struct Lifetimes {
    size_t first_born, born, first_dead, dead;  // in ranges: bytes that begin or end to live here
  };
  // Between the file and host memory.
  struct DiskCopy {
    bool writes = false;
    int64_t offset = 0;
    std::span<std::byte> memory;
    bool rest_is_free = false;  // as DiskFile::write says it
  };
  // By op: before it, where it does not begin with the end of the last one, and behind it.
  struct Stamps {
    std::unique_ptr<Stamp> start;
    std::vector<std::unique_ptr<Stamp>> begins, ends;
    std::unique_ptr<Recording> recording;
  };
  struct Compiled {
    std::vector<Tensor> tensors;
    std::vector<std::span<std::byte>> ranges;
    // By op.
    std::vector<const Op*> ops;
    std::vector<const Kernel*> kernels;  // nullptr: the runtime moves the bytes
    std::vector<KernelArgs> args;
    std::vector<Lifetimes> lifetimes;
    std::vector<size_t> batches;  // how many ops run together, at the first of them
    std::vector<std::optional<DiskCopy>> disk_copies;
    std::vector<Communicator*> groups;         // of collectives; nullptr of other ops
    std::vector<std::vector<ValueId>> writes;  // of values that go on from step to step
    // By op: what copies from and to disk and, on a device with streams, computes in host memory:
    // called by its lane.
    std::vector<std::function<void()>> calls;
    std::optional<Order> order;  // where there are several lanes
    // Where they are streams. `lanes`: the device's, by op; all 0 where there is one. `events`: by
    // op, nullptr where no other lane waits for it; none where there is one lane.
    std::vector<int32_t> lanes;
    std::vector<std::unique_ptr<LaneEvent>> events;
    std::vector<int32_t> side_lanes;  // those of the program besides lane 0
    bool writes_state = false;
    bool ran = false;
    std::unique_ptr<Recording> recording;
    std::unique_ptr<Stamps> stamps;  // while it is measured
  };
  struct Measuring {
    SpanLog* log = nullptr;
    double zero_seconds = 0;           // of the host's clock, when it began
    std::unique_ptr<Stamp> zero;       // the same of the device's
    std::vector<double> begins, ends;  // by op of the program that runs
    std::map<std::string, double> lane_ends;
  };

  Compiled resolve(size_t index);
  Communicator* group_of(const Op& op) const;
  void give_lanes(const Program& program, Compiled& out);
  int32_t device_lane(const std::string& name);
  void prepare();
  void rehearse();
  template <typename Fn>
  void call_kernel(size_t program, size_t op, const Fn& call);
  void run_on_host(size_t index);
  void run_lanes(size_t index);
  void run_in_random_order(size_t index);
  void run_op(const Compiled& program, size_t at) const;
  static void communicate(const Op& op, Communicator& group, const KernelArgs& args, void* stream);
  bool measures() const { return measuring_ && !observe; }
  // Ops from this one on that run as one.
  size_t together(const Compiled& program, size_t op) const {
    return observe || options_.poison_dead ? 1 : program.batches[op];
  }
  void run_measured(const Compiled& program, size_t at);
  void make_stamps(size_t index);
  void stamp_begin(const Compiled& program, size_t at);
  void stamp_end(const Compiled& program, size_t at);
  void read_stamps(size_t index);
  void add_spans(size_t index);
  void ask_to_write(const Compiled& program, size_t op, size_t count = 1) const;
  void run_on_stream(size_t index);
  void enqueue_all(size_t index);
  void enqueue_alone(size_t program, size_t op, size_t count);
  void launch(size_t program, size_t op, size_t count);
  void compute_on_host(size_t program, size_t op);
  void fork(std::span<const int32_t> lanes);
  void join(std::span<const int32_t> lanes);
  void wait_for_others(const Compiled& program, size_t op);
  void tell_others(const Compiled& program, size_t op, size_t count);
  void delay(const Compiled& program, size_t op);
  void poison_what_died(const Compiled& program, size_t at);
  std::string place(size_t program, size_t op) const;
  std::span<std::byte> range(ValueId id) const;
  void require_size(ValueId id, size_t bytes) const;
  void require_inside(ValueId id, int64_t offset, size_t bytes) const;
  struct Place {
    Space space;
    int64_t offset;  // in its arena
  };
  Place place_of(ValueId id) const;
  std::byte* address(ValueId id) const;
  bool on_disk(ValueId id) const { return module_[module_.root(id)].space == Space::disk; }
  std::optional<DiskCopy> disk_copy_of(const Op& op) const;
  void run_disk_copy(const DiskCopy& copy) const;
  bool ends_its_storage(ValueId id) const;
  void overwrite(ValueId id, uint8_t value);
  bool is_pinned(ValueId id) const;

  const Module& module_;
  Device& device_;
  ExecutorOptions options_;
  std::unique_ptr<Memory> arenas_[kSpaces];  // of device and host
  std::unique_ptr<DiskFile> disk_;
  std::unique_ptr<LaneThreads> lanes_;  // where some program has several, and no streams
  uint64_t random_runs_ = 0;
  // Where lanes are streams: their names, by the device's number, and an event for each. That of
  // lane 0 is where the others begin, those of the others are where they end.
  std::vector<std::string> lane_names_ = {"compute"};
  std::vector<std::unique_ptr<LaneEvent>> lane_events_;
  uint64_t delays_ = 0;
  // The first failure of what lanes call on the host; nothing is computed there after it.
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
  std::vector<Compiled> programs_;
  std::unique_ptr<Measuring> measuring_;  // nullptr: it is not measured
  std::span<std::byte> transient_;        // transient values: everything above the shared ones
};

}  // namespace snug
