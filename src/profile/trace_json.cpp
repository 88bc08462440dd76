#include "profile/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/lifetime.h"
#include "ir/op_def.h"
#include "ir/order.h"
#include "profile/memory_timeline.h"

namespace snug {
namespace {

constexpr int kPrograms = 0;  // the track of whole programs; lanes follow

// What is no UTF-8 is replaced.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One process of the trace.
class Process {
 public:
  Process(const Profile& profile, int id, std::string_view name,
          const std::function<void(std::string_view)>& write)
      : module_(*profile.module), id_(id), write_(write) {
    event("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":{}}}}}", id_,
          json_text(name));
    name_track(kPrograms, "programs");
  }

  // `spans`: runs one after another.
  void add(const std::vector<Span>& spans) {
    for (size_t first = 0; first < spans.size();) {
      size_t end = first;
      while (end < spans.size() && spans[end].step == spans[first].step &&
             spans[end].run == spans[first].run)
        ++end;
      add_run({spans.begin() + static_cast<std::ptrdiff_t>(first),
               spans.begin() + static_cast<std::ptrdiff_t>(end)});
      first = end;
    }
  }

  void add_memory(const std::vector<Span>& spans) {
    for (const Space space : {Space::device, Space::host}) {
      if (module_.arena_bytes[static_cast<size_t>(space)] == 0) continue;
      const MemoryTimeline memory = memory_timeline(module_, space);
      std::optional<CategoryBytes> shown;
      for (const Span& span : spans) {
        if (span.lane != kComputeLane) continue;
        const CategoryBytes& live =
            memory.programs[static_cast<size_t>(span.program)][static_cast<size_t>(span.op)].live;
        if (shown != live) add_counter(space, span.begin, live);
        shown = live;
      }
    }
  }

 private:
  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    if (id_ > 1 || any_) write_(",\n");
    any_ = true;
    write_(fmt::format(format, std::forward<Args>(args)...));
  }

  void name_track(int track, std::string_view name) {
    event(
        "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}",
        id_, track, json_text(name));
    event(
        "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{\"sort_"
        "index\":{}}}}}",
        id_, track, track);
  }

  int track_of(const std::string& lane) {
    const auto [found, fresh] = tracks_.try_emplace(lane, static_cast<int>(tracks_.size()) + 1);
    if (fresh) name_track(found->second, lane);
    return found->second;
  }

  void add_run(std::span<const Span> run) {
    const auto index = static_cast<size_t>(run.front().program);
    const Program& program = module_.programs[index];
    double begin = run.front().begin, end = begin;
    std::vector<const Span*> by_op(program.ops.size());
    for (const Span& span : run) {
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
      for (int32_t i = 0; i < span.ops; ++i) by_op[static_cast<size_t>(span.op + i)] = &span;
      add_span(program, span);
    }
    event(
        "{{\"ph\":\"X\",\"name\":{},\"cat\":\"program\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},"
        "\"dur\":{:.3f},\"args\":{{\"step\":{},\"run\":{}}}}}",
        json_text(program.name), id_, kPrograms, begin * 1e6, (end - begin) * 1e6, run.front().step,
        run.front().run);
    const auto [order, fresh] = orders_.try_emplace(index);
    if (fresh) order->second.emplace(module_, program);
    for (size_t op = 0; op < by_op.size(); ++op)
      for (const int32_t other : order->second->waits(static_cast<int32_t>(op)))
        add_flow(by_op[static_cast<size_t>(other)], by_op[op]);
  }

  void add_span(const Program& program, const Span& span) {
    const Op& op = program.ops[static_cast<size_t>(span.op)];
    std::string makes;
    if (!op.outputs.empty()) makes = module_[op.outputs[0]].type.text();
    const int track = track_of(span.lane);
    event(
        "{{\"ph\":\"X\",\"name\":{},\"cat\":{},\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},"
        "\"args\":{{\"kind\":{},\"program\":{},\"phase\":\"{}\",\"layer\":{},\"ops\":{},\"makes\":"
        "{}}}}}",
        json_text(op.name), json_text(op.def->kind), id_, track, span.begin * 1e6,
        span.seconds() * 1e6, json_text(op.def->kind), json_text(program.name), name_of(op.phase),
        op.layer, span.ops, json_text(makes));
  }

  // Both ends are inside their spans, where viewers look for them.
  void add_flow(const Span* from, const Span* to) {
    if (from == nullptr || to == nullptr || from->lane == to->lane) return;
    ++flows_;
    const int from_track = track_of(from->lane), to_track = track_of(to->lane);
    event(
        "{{\"ph\":\"s\",\"name\":\"waits\",\"cat\":\"waits\",\"id\":{},\"pid\":{},\"tid\":{},"
        "\"ts\":{:.3f}}}",
        flow_id(), id_, from_track, (from->begin + 0.9 * from->seconds()) * 1e6);
    event(
        "{{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"waits\",\"cat\":\"waits\",\"id\":{},\"pid\":{},"
        "\"tid\":{},\"ts\":{:.3f}}}",
        flow_id(), id_, to_track, (to->begin + 0.1 * to->seconds()) * 1e6);
  }
  int64_t flow_id() const { return flows_ * 4 + id_; }  // of this process alone

  void add_counter(Space space, double at, const CategoryBytes& live) {
    std::string values;
    for (int c = 0; c < kCategories; ++c)
      values += fmt::format("{}\"{}\":{}", c == 0 ? "" : ",", name_of(static_cast<Category>(c)),
                            live[static_cast<size_t>(c)]);
    event(
        "{{\"ph\":\"C\",\"name\":\"{} "
        "memory\",\"pid\":{},\"tid\":0,\"ts\":{:.3f},\"args\":{{{}}}}}",
        name_of(space), id_, at * 1e6, values);
  }

  const Module& module_;
  int id_;
  const std::function<void(std::string_view)>& write_;
  bool any_ = false;
  std::map<std::string, int> tracks_;
  std::map<size_t, std::optional<Order>> orders_;
  int64_t flows_ = 0;
};

}  // namespace

void write_trace_json(const Profile& profile, const std::function<void(std::string_view)>& write) {
  write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  int id = 0;
  for (const auto& [name, spans] :
       {std::pair{"measured", &profile.measured}, std::pair{"predicted", &profile.predicted}}) {
    if (spans->empty()) continue;
    Process process(profile, ++id, name, write);
    process.add(*spans);
    process.add_memory(*spans);
  }
  write("\n]}\n");
}

}  // namespace snug
