// Gives ops to their lanes: kernels, copies, collectives, and calls of what the host computes. On a
// device without streams an op has run when this returns.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/bound_program.h"

namespace snug {

class OpLauncher {
 public:
  // What fails on the host, called by a lane, is kept in `failure`. All outlive this.
  OpLauncher(std::span<const BoundProgram> programs, const Storage& storage, DeviceLanes& lanes,
             HostFailure& failure);

  // `count` ops that run together, on their lane.
  void launch(size_t program, size_t op, size_t count);
  // The same in the order of lane 0, whatever the op's own lane.
  void launch_in_order(size_t program, size_t op, size_t count);

  // Lets kernels choose their algorithms. Before any value has its content: those that time them write
  // to all of the device's arena.
  void prepare();
  // Launches every kernel once, on zeros, where stages send messages.
  void rehearse();

  // The device leaves the op's number when it comes by, and names the last one in words: what a
  // failure is named by.
  void mark(size_t program, size_t op);
  std::string last_place() const;

 private:
  template <typename Fn>
  void call_kernel(size_t program, size_t op, const Fn& call) const;
  std::string place(size_t program, size_t op) const;

  std::span<const BoundProgram> programs_;
  const Storage& storage_;
  Device& device_;
  DeviceLanes& lanes_;
  // By program and op: what copies from and to disk and, on a device with streams, computes in host
  // memory.
  std::vector<std::vector<std::function<void()>>> calls_;
};

}  // namespace snug
