// Runs placed programs. All pointers are resolved once; from then on a run walks a list of kernels
// and allocates nothing.
//
//   auto device = cpu_device();
//   Executor executor(module, *device);
//   executor.run("micro_first");
//   float loss = executor.scalar<float>(executor.shared("loss_sum"));
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "hal/device.h"
#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

struct ExecutorOptions {
  // Test mode: overwrites each value with NaN when its lifetime ends. Results must not change.
  bool poison_dead = false;
};

class Executor {
 public:
  // Allocates the arena of the device space: exactly the plan's number. Refuses, before that, an op
  // without a kernel and a value in another space. `module` outlives this.
  Executor(const Module& module, Device& device, ExecutorOptions options = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void run(std::string_view program);
  // One step: every program in the order of Module::step. `before` is called before each, to feed
  // it.
  void run_step(const std::function<void(std::string_view program)>& before);

  const Module& module() const { return module_; }
  ValueId shared(std::string_view name) const;  // throws an internal error when there is none
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

  int64_t planned_bytes() const;    // what the plan says
  int64_t allocated_bytes() const;  // what was asked of the device
  int64_t measured_bytes() const;   // the highest byte written so far, plus one

  // Called after every op, with the program's and the op's index: checks and profiles look in here.
  std::function<void(size_t program, size_t op)> observe;

 private:
  struct Call {
    KernelFn kernel;
    size_t first_input, inputs, first_output, outputs;  // ranges in tensors
    std::span<std::byte> workspace;
    const Attrs* attrs;
    const int32_t* predicate;
    size_t first_born, born, first_dead,
        dead;  // ranges in ranges: bytes whose lifetimes begin or end here
  };
  struct Compiled {
    std::vector<Call> calls;
    std::vector<Tensor> tensors;
    std::vector<std::span<std::byte>> ranges;
  };

  Compiled resolve(size_t program) const;
  std::byte* address(ValueId id) const;

  const Module& module_;
  ExecutorOptions options_;
  std::unique_ptr<Memory> arena_;
  std::vector<Compiled> programs_;
  std::span<std::byte> transient_;  // everything above the shared values
};

}  // namespace snug
