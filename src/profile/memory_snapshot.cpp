#include "profile/memory_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "formats/pickle_writer.h"
#include "ir/op_def.h"
#include "placement/space_values.h"
#include "profile/memory_timeline.h"

namespace snug {
namespace {

constexpr int64_t kArena = int64_t{1} << 40;  // where the viewer shows it

class SnapshotWriter {
 public:
  SnapshotWriter(const Module& module, const std::vector<Span>& spans) : module_(module) {
    for (const Span& span : spans)
      for (int32_t i = 0; i < span.ops; ++i)
        begins_.try_emplace({span.program, span.op + i}, span.begin);
  }

  std::string write() {
    out_.begin_dict();
    out_.key("segments");
    write_segment();
    out_.key("device_traces");
    out_.begin_list();
    write_trace();
    out_.end();
    out_.key("allocator_settings");
    out_.begin_dict();
    out_.end();
    out_.key("external_annotations");
    out_.begin_list();
    out_.end();
    out_.end();
    return out_.finish();
  }

 private:
  void field(std::string_view key, std::string_view text) {
    out_.key(key);
    out_.text(text);
  }
  void field(std::string_view key, int64_t number) {
    out_.key(key);
    out_.integer(number);
  }

  // What lives when the step is over is what lives from step to step.
  std::vector<const Value*> shared_values() const {
    std::vector<const Value*> shared;
    for (const Value& value : module_.values)
      if (resides_shared(value, Space::device) && value.storage_bytes() > 0)
        shared.push_back(&value);
    std::ranges::sort(shared, {}, [](const Value* value) { return *value->offset; });
    return shared;
  }

  void write_segment() {
    const int64_t arena = module_.arena_bytes[0];
    int64_t allocated = 0;
    for (const Value* value : shared_values()) allocated += value->storage_bytes();
    out_.begin_list();
    out_.begin_dict();
    field("device", 0);
    field("address", kArena);
    field("total_size", arena);
    for (const char* key : {"allocated_size", "active_size", "requested_size"})
      field(key, allocated);
    field("stream", 0);
    field("segment_type", "large");
    out_.key("segment_pool_id");
    out_.pair(0, 0);
    out_.key("is_expandable");
    out_.boolean(false);
    out_.key("frames");
    write_frames("arena", "the plan's one allocation", "snug");
    out_.key("blocks");
    write_blocks(arena);
    out_.end();
    out_.end();
  }

  // They tile the segment: unused bytes are a block too.
  void write_blocks(int64_t arena) {
    out_.begin_list();
    int64_t at = 0;
    const auto gap_until = [&](int64_t end) {
      if (end > at) write_block(at, end - at, nullptr);
      at = end;
    };
    for (const Value* value : shared_values()) {
      gap_until(*value->offset);
      write_block(at, value->storage_bytes(), value);
      at += value->storage_bytes();
    }
    gap_until(arena);
    out_.end();
  }

  void write_block(int64_t at, int64_t bytes, const Value* value) {
    out_.begin_dict();
    field("address", kArena + at);
    field("size", bytes);
    field("requested_size", bytes);
    field("state", value != nullptr ? "active_allocated" : "inactive");
    out_.key("frames");
    if (value != nullptr) {
      write_frames(*value);
    } else {
      out_.begin_list();
      out_.end();
    }
    out_.end();
  }

  void write_frame(std::string_view name, std::string_view file, int64_t line) {
    out_.begin_dict();
    field("filename", file);
    field("line", line);
    field("name", name);
    out_.end();
  }
  void write_frames(std::string_view name, std::string_view file, std::string_view owner) {
    out_.begin_list();
    write_frame(name, file, 0);
    write_frame(owner, "snug", 0);
    out_.end();
  }
  // Innermost first, as PyTorch has them: the value, the layer, the category.
  void write_frames(const Value& value) {
    const auto [found, fresh] = frames_.try_emplace(&value, 0);
    if (!fresh) return out_.again(found->second);
    out_.begin_list();
    write_frame(value.name, value.type.text(), 0);
    if (value.layer != kNoLayer) write_frame(fmt::format("layer {}", value.layer), "layer", 0);
    write_frame(name_of(value.category), "category", 0);
    out_.end();
    found->second = out_.remember();
  }

  void write_event(std::string_view action, int64_t offset, int64_t bytes, double seconds,
                   const Value* value, bool has_category) {
    out_.begin_dict();
    field("action", action);
    field("addr", kArena + offset);
    field("size", bytes);
    field("stream", 0);
    field("time_us", static_cast<int64_t>(seconds * 1e6));
    out_.key("frames");
    if (value != nullptr) {
      write_frames(*value);
    } else {
      write_frames("arena", "the plan's one allocation", "snug");
    }
    if (has_category)
      field("category", value != nullptr ? name_of(value->category) : std::string_view("unknown"));
    out_.end();
  }
  void write_alloc(const Value& value, double seconds) {
    write_event("alloc", *value.offset, value.storage_bytes(), seconds, &value, true);
  }
  void write_free(const Value& value, double seconds) {
    for (const char* action : {"free_requested", "free_completed"})
      write_event(action, *value.offset, value.storage_bytes(), seconds, &value, false);
  }

  void write_trace() {
    out_.begin_list();
    const int64_t arena = module_.arena_bytes[0];
    write_event("segment_alloc", 0, arena, 0, nullptr, false);
    if (arena > 0) {  // the viewer fails where categories are told and none is "unknown"
      const int64_t bytes = std::min<int64_t>(arena, alignment_of(Space::device));
      write_event("alloc", 0, bytes, 0, nullptr, true);
      for (const char* action : {"free_requested", "free_completed"})
        write_event(action, 0, bytes, 0, nullptr, false);
    }
    for (const Value* value : shared_values()) write_alloc(*value, 0);
    for (const int32_t program : programs_in_step(module_)) write_program(program);
    out_.end();
  }

  void write_program(int32_t program) {
    const size_t ops = module_.programs[static_cast<size_t>(program)].ops.size();
    std::vector<std::vector<const Value*>> born(ops), dead(ops + 1);
    for (const Value& value : module_.values) {
      if (!resides_local(value, Space::device, program) || value.storage_bytes() == 0) continue;
      const Block life = block_of(value);
      born[static_cast<size_t>(life.first)].push_back(&value);
      dead[static_cast<size_t>(life.last) + 1].push_back(&value);
    }
    for (size_t at = 0; at <= ops; ++at) {
      const auto found = begins_.find({program, static_cast<int32_t>(at)});
      if (found != begins_.end()) now_ = std::max(now_, found->second);
      for (const Value* value : dead[at]) write_free(*value, now_);
      if (at == ops) break;
      for (const Value* value : born[at]) write_alloc(*value, now_);
    }
  }

  const Module& module_;
  PickleWriter out_;
  std::map<std::pair<int32_t, int32_t>, double> begins_;  // by program and op
  std::map<const Value*, uint32_t> frames_;
  double now_ = 0;
};

}  // namespace

std::string memory_snapshot_pickle(const Module& placed, const std::vector<Span>& spans) {
  return SnapshotWriter(placed, spans).write();
}

}  // namespace snug
