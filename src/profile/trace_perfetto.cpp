#include "profile/trace_perfetto.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "formats/protobuf.h"
#include "profile/trace_events.h"

namespace snug {
namespace {

// Numbers of fields and of enumerators, as Perfetto's .proto files give them.
namespace trace {
constexpr uint32_t kPacket = 1;
}
namespace packet {
constexpr uint32_t kClockSnapshot = 6, kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11,
                   kInternedData = 12, kSequenceFlags = 13, kTimestampClock = 58, kDefaults = 59,
                   kTrackDescriptor = 60, kFirstOnSequence = 87;
constexpr int64_t kStateCleared = 1, kNeedsState = 2;
}  // namespace packet
namespace clock_snapshot {
constexpr uint32_t kClocks = 1, kPrimary = 2, kId = 1, kTimestamp = 2;
constexpr int64_t kMonotonic = 3;
}  // namespace clock_snapshot
namespace descriptor {
constexpr uint32_t kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kCounter = 8, kChildOrder = 11,
                   kRank = 12;
constexpr uint32_t kPid = 1, kProcessName = 6, kUnit = 3, kShareAxis = 7;
constexpr int64_t kByRank = 3, kBytes = 3;
}  // namespace descriptor
namespace event {
constexpr uint32_t kCategoryIds = 3, kAnnotations = 4, kType = 9, kNameId = 10, kTrack = 11,
                   kCounterValue = 30, kFlows = 47, kEndingFlows = 48;
constexpr int64_t kBegin = 1, kEnd = 2, kCounter = 4;
}  // namespace event
namespace annotation {
constexpr uint32_t kNameId = 1, kInteger = 4, kTextId = 17;
}
namespace interned {
constexpr uint32_t kCategories = 1, kEventNames = 2, kAnnotationNames = 3, kAnnotationTexts = 29;
constexpr uint32_t kId = 1, kText = 2;
}  // namespace interned

constexpr int64_t kSequence = 1;  // one writer, one sequence of packets

// What is no UTF-8 is replaced, as in the JSON.
std::string utf8(std::string_view text) {
  return nlohmann::json::parse(
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Texts that packets give by number. The first packet that has one says what it is.
class Names {
 public:
  explicit Names(uint32_t kind) : kind_(kind) {}

  int64_t id(std::string_view text, ProtoMessage& fresh) {
    if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
    const int64_t id = std::ssize(ids_) + 1;
    ids_.emplace(text, id);
    fresh.message(kind_,
                  ProtoMessage().integer(interned::kId, id).text(interned::kText, utf8(text)));
    return id;
  }

 private:
  uint32_t kind_;
  std::map<std::string, int64_t, std::less<>> ids_;
};

// 64 bits of a process and what it has: 0 is the process itself, lanes follow, then counters.
int64_t uuid_of(int process, int64_t part = 0) { return int64_t{process} << 32 | part; }
int64_t uuid_of_lane(int process, int track) { return uuid_of(process, 1 + track); }
int64_t uuid_of_memory(int process, Space space, int64_t part = 0) {
  return uuid_of(process, (int64_t{1} << 16) + 64 * static_cast<int64_t>(space) + part);
}

class PerfettoSink final : public TraceSink {
 public:
  explicit PerfettoSink(const std::function<void(std::string_view)>& write) : write_(write) {
    // Times are those of a steady clock that was 0 when the first step began.
    using namespace clock_snapshot;
    ProtoMessage first;
    first.integer(packet::kSequenceId, kSequence)
        .integer(packet::kFirstOnSequence, 1)
        .message(
            packet::kClockSnapshot,
            ProtoMessage()
                .message(kClocks, ProtoMessage().integer(kId, kMonotonic).integer(kTimestamp, 0))
                .integer(kPrimary, kMonotonic));
    add(first);
    ProtoMessage second;
    second.integer(packet::kSequenceId, kSequence)
        .integer(packet::kSequenceFlags, packet::kStateCleared)
        .message(packet::kDefaults, ProtoMessage().integer(packet::kTimestampClock, kMonotonic));
    add(second);
  }

  void name_process(int process, std::string_view name) override {
    const std::string text = utf8(name);
    add_track(ProtoMessage()
                  .integer(descriptor::kUuid, uuid_of(process))
                  .text(descriptor::kName, text)
                  .message(descriptor::kProcess, ProtoMessage()
                                                     .integer(descriptor::kPid, process)
                                                     .text(descriptor::kProcessName, text))
                  .integer(descriptor::kChildOrder, descriptor::kByRank));
  }

  void name_track(int process, int track, std::string_view name) override {
    add_track(child(uuid_of_lane(process, track), uuid_of(process), utf8(name), track));
  }

  void add_slice(const TraceSlice& slice) override {
    const int64_t track = uuid_of_lane(slice.process, slice.track);
    ProtoMessage fresh;
    ProtoMessage begin = event_on(track, event::kBegin);
    begin.integer(event::kCategoryIds, categories_.id(slice.category, fresh))
        .integer(event::kNameId, names_.id(slice.name, fresh));
    for (const auto& [name, value] : slice.facts) {
      ProtoMessage fact;
      fact.integer(annotation::kNameId, fact_names_.id(name, fresh));
      if (const auto* number = std::get_if<int64_t>(&value))
        fact.integer(annotation::kInteger, *number);
      else
        fact.integer(annotation::kTextId, fact_texts_.id(std::get<std::string_view>(value), fresh));
      begin.message(event::kAnnotations, fact);
    }
    for (const int64_t flow : slice.to) begin.fixed64(event::kFlows, static_cast<uint64_t>(flow));
    for (const int64_t flow : slice.from)
      begin.fixed64(event::kEndingFlows, static_cast<uint64_t>(flow));
    add_event(slice.begin, begin, fresh);
    add_event(slice.end, event_on(track, event::kEnd));
  }

  // A counter keeps its value until the next.
  void set_memory(const TraceMemory& memory) override {
    std::optional<CategoryBytes>& before = memory_[{memory.process, memory.space}];
    if (!before) name_counters(memory.process, memory.space);
    for (int c = 0; c < kCategories; ++c) {
      const auto category = static_cast<size_t>(c);
      if (!before || (*before)[category] != memory.live[category])
        set_counter(memory, kFirstCategory + c, memory.live[category]);
    }
    if (!before || total(*before) != total(memory.live))
      set_counter(memory, kTotal, total(memory.live));
    before = memory.live;
  }

 private:
  static constexpr int kTotal = 1, kFirstCategory = 2;

  static ProtoMessage child(int64_t uuid, int64_t parent, std::string_view name, int64_t rank) {
    return ProtoMessage()
        .integer(descriptor::kUuid, uuid)
        .integer(descriptor::kParent, parent)
        .text(descriptor::kName, name)
        .integer(descriptor::kRank, rank);
  }

  // A group below the lanes: all of it, and each category, on one scale.
  void name_counters(int process, Space space) {
    const std::string group = fmt::format("{} memory", name_of(space));
    const int64_t parent = uuid_of_memory(process, space);
    add_track(child(parent, uuid_of(process), group, 1000 + static_cast<int64_t>(space))
                  .integer(descriptor::kChildOrder, descriptor::kByRank));
    const auto name = [&](int part, std::string_view text) {
      add_track(
          child(uuid_of_memory(process, space, part), parent, text, part)
              .message(descriptor::kCounter, ProtoMessage()
                                                 .integer(descriptor::kUnit, descriptor::kBytes)
                                                 .text(descriptor::kShareAxis, group)));
    };
    name(kTotal, "all");
    for (int c = 0; c < kCategories; ++c)
      name(kFirstCategory + c, name_of(static_cast<Category>(c)));
  }

  void set_counter(const TraceMemory& memory, int part, int64_t value) {
    const int64_t track = uuid_of_memory(memory.process, memory.space, part);
    add_event(memory.at, event_on(track, event::kCounter).integer(event::kCounterValue, value));
  }

  static ProtoMessage event_on(int64_t track, int64_t type) {
    return ProtoMessage().integer(event::kType, type).integer(event::kTrack, track);
  }

  void add_event(int64_t at, const ProtoMessage& event, const ProtoMessage& fresh = {}) {
    ProtoMessage message;
    message.integer(packet::kTimestamp, at)
        .integer(packet::kSequenceId, kSequence)
        .integer(packet::kSequenceFlags, packet::kNeedsState)
        .message(packet::kTrackEvent, event);
    if (!fresh.empty()) message.message(packet::kInternedData, fresh);
    add(message);
  }

  void add_track(const ProtoMessage& track) {
    add(ProtoMessage()
            .integer(packet::kSequenceId, kSequence)
            .message(packet::kTrackDescriptor, track));
  }

  void add(const ProtoMessage& message) {
    write_(ProtoMessage().message(trace::kPacket, message).bytes());
  }

  const std::function<void(std::string_view)>& write_;
  Names categories_{interned::kCategories}, names_{interned::kEventNames},
      fact_names_{interned::kAnnotationNames}, fact_texts_{interned::kAnnotationTexts};
  std::map<std::pair<int, Space>, std::optional<CategoryBytes>> memory_;  // that was set last
};

}  // namespace

void write_trace_perfetto(const Profile& profile,
                          const std::function<void(std::string_view)>& write) {
  PerfettoSink sink(write);
  describe_trace(profile, sink);
}

}  // namespace snug
