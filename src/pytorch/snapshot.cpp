#include "pytorch/snapshot.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/pickle.h"

namespace snug::pytorch {
namespace {

// What is shared in a pickle costs nothing there, and is counted here each time it is reached. Only
// stacks and frames are shared in a snapshot: blocks and events each take more bytes of the file.
constexpr int64_t kLeastRecord = 8;  // bytes of one in the file
constexpr int64_t kMostRecords = 40'000'000;
constexpr size_t kMostKeys = 64;  // of a block, an event or a frame
constexpr int64_t kMostDevices = 1024;
constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr int64_t kMostAddress = int64_t{1} << 61;  // and the most bytes of all sizes together

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : name_(path.string()), pickle_(read_pickle(path)) {}

  Snapshot read() && {
    const PickleValue root = pickle_.root();
    if (root.is(PickleKind::list)) {  // torch.cuda.memory_snapshot(): the segments alone
      read_segments(root);
    } else {
      if (!root.is(PickleKind::dict)) throw no_snapshot(words_of(root.kind()));
      const PickleValue segments = pickle_.find(root, "segments");
      if (segments.is(PickleKind::none)) throw no_snapshot("a dict without 'segments'");
      read_segments(segments);
      read_traces(pickle_.find(root, "device_traces"));
      read_settings(pickle_.find(root, "allocator_settings"));
    }
    for (auto& [number, device] : devices_) {
      if (device.segments.empty() && device.trace.empty()) continue;
      device.device = number;
      snapshot_.devices.push_back(std::move(device));
    }
    return std::move(snapshot_);
  }

 private:
  Error no_snapshot(std::string_view what) const {
    return bad_input("{} is no memory snapshot of PyTorch: it holds {}", name_, what)
        .hint(
            "torch.cuda.memory._record_memory_history() before the run and "
            "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") after it write one");
  }
  void count(std::string_view what) {
    const int64_t most = std::min(kMostRecords, pickle_.file_bytes() / kLeastRecord);
    if (++records_ > most)
      throw bad_input("{} has more than {} {} and what is before them, the limit for its size",
                      name_, format_exact(most), what);
  }

  // --- fields ------------------------------------------------------------------------------------

  // A dict of few keys: looking at all of them is nothing.
  PickleValue field(PickleValue record, std::string_view key) const {
    if (pickle_.pairs(record).size() > 2 * kMostKeys)
      throw bad_input("{}: a record has {} keys, and none of PyTorch's has more than {}", name_,
                      pickle_.pairs(record).size() / 2, kMostKeys);
    return pickle_.find(record, key);
  }
  int64_t number(PickleValue record, std::string_view key, int64_t otherwise = 0) const {
    const PickleValue value = field(record, key);
    return value.is(PickleKind::integer) ? pickle_.integer(value) : otherwise;
  }
  int64_t address(PickleValue record, std::string_view key, int64_t otherwise = 0) const {
    const int64_t value = number(record, key, otherwise);
    if (value < 0 || value > kMostAddress)
      throw bad_input("{}: '{}' is {}, which is no address", name_, key, value);
    return value;
  }
  int64_t size(PickleValue record, std::string_view key) {
    const int64_t bytes = number(record, key);
    if (bytes < 0 || bytes > kMostBytes || (all_bytes_ += bytes) > kMostAddress)
      throw bad_input("{}: '{}' is {}, which is no number of bytes", name_, key, bytes);
    return bytes;
  }
  std::string text(PickleValue record, std::string_view key) const {
    const PickleValue value = field(record, key);
    return value.is(PickleKind::text) ? printable(pickle_.text(value)) : "";
  }
  bool flag(PickleValue record, std::string_view key) const {
    const PickleValue value = field(record, key);
    return value.is(PickleKind::boolean) && pickle_.boolean(value);
  }
  std::span<const PickleValue> list(PickleValue value) const {
    return value.is(PickleKind::none) ? std::span<const PickleValue>{} : pickle_.items(value);
  }

  // --- stacks ------------------------------------------------------------------------------------

  uint32_t frame(PickleValue value) {
    const auto known = frames_.find(value.identity());
    if (known != frames_.end()) return known->second;
    Frame read{text(value, "filename"), text(value, "name"), number(value, "line")};
    // Equal ones are one, whether the pickle shares them or not; so are stacks.
    const auto [equal, is_new] =
        equal_frames_.emplace(std::tuple(read.file, read.name, read.line),
                              static_cast<uint32_t>(snapshot_.frames.size()));
    if (is_new) snapshot_.frames.push_back(std::move(read));
    return frames_[value.identity()] = equal->second;
  }
  StackId stack(PickleValue value) {
    const std::span<const PickleValue> items = list(value);
    if (items.empty()) return 0;
    const auto [found, is_new] =
        stacks_.emplace(value.identity(), static_cast<StackId>(snapshot_.stacks.size()));
    if (!is_new) return found->second;
    std::vector<uint32_t> frames;
    for (const PickleValue item : items) {
      if (++frame_count_ > pickle_.file_bytes())
        throw bad_input("{} has more frames in its stacks than bytes", name_);
      frames.push_back(frame(item));
    }
    const auto [same, is_other] = equal_stacks_.emplace(frames, found->second);
    if (!is_other) return found->second = same->second;
    snapshot_.stacks.push_back(std::move(frames));
    return found->second;
  }

  // --- segments ----------------------------------------------------------------------------------

  DeviceSnapshot& device(int64_t number) {
    if (number < 0 || number >= kMostDevices)
      throw bad_input("{}: there is no device {}", name_, number);
    return devices_[number];
  }
  Block read_block(PickleValue value, int64_t next_address) {
    const std::string state = text(value, "state");
    Block block{.address = address(value, "address", next_address),
                .bytes = size(value, "size"),
                .requested = size(value, "requested_size"),
                .state = state == "inactive"           ? BlockState::inactive
                         : state == "active_allocated" ? BlockState::allocated
                                                       : BlockState::pending_free,
                .stack = stack(field(value, "frames"))};
    // Before 2.1 frames were in a history, the last allocation first.
    const std::span<const PickleValue> history = list(field(value, "history"));
    if (block.stack == 0 && !history.empty()) block.stack = stack(field(history[0], "frames"));
    if (block.requested == 0) block.requested = block.bytes;
    return block;
  }
  void read_segments(PickleValue segments) {
    for (const PickleValue value : list(segments)) {
      count("segments");
      Segment segment{.address = address(value, "address"),
                      .bytes = size(value, "total_size"),
                      .stream = number(value, "stream"),
                      .expandable = flag(value, "is_expandable"),
                      .small = text(value, "segment_type") == "small"};
      int64_t next = segment.address;
      for (const PickleValue block : list(field(value, "blocks"))) {
        count("blocks");
        segment.blocks.push_back(read_block(block, next));
        next = segment.blocks.back().address + segment.blocks.back().bytes;
      }
      device(number(value, "device")).segments.push_back(std::move(segment));
    }
  }

  // --- traces ------------------------------------------------------------------------------------

  Action action_of(PickleValue value) {
    static const std::map<std::string_view, Action> kActions{
        {"alloc", Action::alloc},
        {"free", Action::free_completed},
        {"free_requested", Action::free_requested},
        {"free_completed", Action::free_completed},
        {"segment_alloc", Action::segment_alloc},
        {"segment_free", Action::segment_free},
        {"segment_map", Action::segment_map},
        {"segment_unmap", Action::segment_unmap},
        {"oom", Action::oom},
        {"snapshot", Action::snapshot}};
    if (!value.is(PickleKind::text)) return Action::other;
    const auto found = kActions.find(pickle_.text(value));
    return found == kActions.end() ? Action::other : found->second;
  }
  Event read_event(PickleValue value) {
    Event event{.action = action_of(field(value, "action")),
                .address = address(value, "addr"),
                .bytes = size(value, "size"),
                .time_us = number(value, "time_us"),
                .stack = stack(field(value, "frames"))};
    if (event.action == Action::oom) event.address = address(value, "device_free", event.address);
    return event;
  }
  void read_traces(PickleValue traces) {
    const std::span<const PickleValue> all = list(traces);
    for (size_t i = 0; i < all.size(); ++i) {
      const std::span<const PickleValue> events = list(all[i]);
      if (events.empty()) continue;
      std::vector<Event>& trace = device(static_cast<int64_t>(i)).trace;
      for (const PickleValue value : events) {
        count("events in its traces");
        trace.push_back(read_event(value));
      }
    }
  }

  void read_settings(PickleValue settings) {
    if (!settings.is(PickleKind::dict)) return;
    snapshot_.expandable_segments = flag(settings, "expandable_segments");
    snapshot_.allocator_settings = text(settings, "PYTORCH_CUDA_ALLOC_CONF");
    if (snapshot_.allocator_settings.empty())
      snapshot_.allocator_settings = text(settings, "PYTORCH_ALLOC_CONF");
  }

  const std::string name_;
  const Pickle pickle_;
  Snapshot snapshot_;
  std::map<int64_t, DeviceSnapshot> devices_;
  std::unordered_map<uint64_t, uint32_t> frames_;
  std::unordered_map<uint64_t, StackId> stacks_;
  std::map<std::tuple<std::string, std::string, int64_t>, uint32_t> equal_frames_;
  std::map<std::vector<uint32_t>, StackId> equal_stacks_;
  int64_t all_bytes_ = 0;
  int64_t frame_count_ = 0, records_ = 0;
};

}  // namespace

Snapshot read_snapshot(const std::filesystem::path& path) { return Reader(path).read(); }

Snapshot read_some_snapshot(const std::filesystem::path& path) {
  Snapshot snapshot = read_snapshot(path);
  if (snapshot.devices.empty())
    throw bad_input("{} has no segment and no event: nothing was allocated or recorded",
                    path.string())
        .hint("torch.cuda.memory._record_memory_history() goes before the model is made");
  return snapshot;
}

}  // namespace snug::pytorch
