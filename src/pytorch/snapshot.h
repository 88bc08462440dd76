// A memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot): the segments that its allocator
// holds, their blocks, and the trace of what it did. Of PyTorch 2.1 and newer; what a version does
// not write is left at its default.
//
//   const Snapshot s = read_snapshot("snapshot.pickle");
//   for (const Event& e : s.devices[0].trace) if (e.action == Action::oom) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace snug::pytorch {

struct Frame {
  std::string file, name;
  int64_t line = 0;
};

// The index of a stack of frames, innermost first, in Snapshot::stacks; 0 is the empty one.
using StackId = uint32_t;

enum class BlockState : uint8_t { allocated, pending_free, inactive };

struct Block {
  int64_t address = 0;
  int64_t bytes = 0;      // as the allocator rounded them
  int64_t requested = 0;  // as they were asked for
  BlockState state = BlockState::inactive;
  StackId stack = 0;
};

// One range that the driver gave, or, where expandable, one that grows and shrinks.
struct Segment {
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t stream = 0;
  bool expandable = false;
  bool small = false;  // for tensors up to 1 MiB
  std::vector<Block> blocks;
};

enum class Action : uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  oom,
  snapshot,
  other,  // of a newer PyTorch
};

struct Event {
  Action action = Action::other;
  int64_t address = 0;  // of oom: what was free on the device
  int64_t bytes = 0;    // as they were asked for
  int64_t time_us = 0;
  StackId stack = 0;
};

struct DeviceSnapshot {
  int64_t device = 0;
  std::vector<Segment> segments;
  std::vector<Event> trace;
};

struct Snapshot {
  std::vector<DeviceSnapshot> devices;  // those that have segments or a trace
  std::vector<Frame> frames;
  std::vector<std::vector<uint32_t>> stacks{{}};  // of indices into frames
  bool expandable_segments = false;               // as the allocator was set
  std::string allocator_settings;                 // PYTORCH_CUDA_ALLOC_CONF
};

// Throws bad_input where the file is no snapshot, or holds more than can be kept.
Snapshot read_snapshot(const std::filesystem::path& path);
// The same, and where there is nothing in it.
Snapshot read_some_snapshot(const std::filesystem::path& path);

}  // namespace snug::pytorch
