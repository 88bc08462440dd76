#include "profile/trace_events.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/lifetime.h"
#include "ir/op_def.h"
#include "ir/order.h"
#include "profile/memory_timeline.h"

namespace snug {
namespace {

constexpr int kPrograms = 0;  // the track of whole programs; lanes follow

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// One process of the trace.
class Process {
 public:
  Process(const Profile& profile, int id, std::string_view name, TraceSink& sink)
      : module_(*profile.module), id_(id), sink_(sink) {
    sink_.name_process(id_, name);
  }

  // `spans`: runs one after another.
  void add(std::span<const Span> spans) {
    sink_.name_track(id_, kPrograms, "programs");
    for (size_t first = 0; first < spans.size();) {
      size_t end = first;
      while (end < spans.size() && spans[end].step == spans[first].step &&
             spans[end].run == spans[first].run)
        ++end;
      add_run(spans.subspan(first, end - first));
      first = end;
    }
  }

  void add_memory(std::span<const Span> spans) {
    for (const Space space : {Space::device, Space::host}) {
      if (module_.arena_bytes[static_cast<size_t>(space)] == 0) continue;
      const MemoryTimeline memory = memory_timeline(module_, space);
      std::optional<CategoryBytes> shown;
      for (const Span& span : spans) {
        if (span.lane != kComputeLane) continue;
        const auto program = static_cast<size_t>(span.program), op = static_cast<size_t>(span.op);
        const CategoryBytes& live = memory.programs[program][op].live;
        if (shown != live)
          sink_.set_memory({.process = id_,
                            .space = space,
                            .at = nanoseconds(span.begin),
                            .step = span.step,
                            .op = &module_.programs[program].ops[op],
                            .live = live});
        shown = live;
      }
    }
  }

 private:
  struct Flows {
    std::vector<int64_t> to, from;
  };

  int track_of(const std::string& lane) {
    const auto [found, fresh] = tracks_.try_emplace(lane, static_cast<int>(tracks_.size()) + 1);
    if (fresh) sink_.name_track(id_, found->second, lane);
    return found->second;
  }

  const Order& order_of(int32_t program) {
    const auto [order, fresh] = orders_.try_emplace(program);
    if (fresh) order->second.emplace(module_, module_.programs[static_cast<size_t>(program)]);
    return *order->second;
  }

  // By span: an op waits for ops of other lanes, and their spans end first.
  std::vector<Flows> flows_of(std::span<const Span> run, size_t ops) {
    constexpr size_t kNone = static_cast<size_t>(-1);
    std::vector<size_t> by_op(ops, kNone);
    for (size_t i = 0; i < run.size(); ++i)
      for (int32_t op = run[i].op; op < run[i].op + run[i].ops; ++op)
        by_op[static_cast<size_t>(op)] = i;
    std::vector<Flows> flows(run.size());
    const Order& order = order_of(run.front().program);
    for (size_t op = 0; op < ops; ++op) {
      const size_t to = by_op[op];
      if (to == kNone) continue;
      for (const int32_t other : order.waits(static_cast<int32_t>(op))) {
        const size_t from = by_op[static_cast<size_t>(other)];
        if (from == kNone || run[from].lane == run[to].lane) continue;
        const int64_t id = ++flows_ * 4 + id_;  // of this process alone
        flows[from].to.push_back(id);
        flows[to].from.push_back(id);
      }
    }
    return flows;
  }

  void add_run(std::span<const Span> run) {
    const Program& program = module_.programs[static_cast<size_t>(run.front().program)];
    const std::vector<Flows> flows = flows_of(run, program.ops.size());
    double begin = run.front().begin, end = begin;
    for (size_t i = 0; i < run.size(); ++i) {
      begin = std::min(begin, run[i].begin);
      end = std::max(end, run[i].end);
      add_span(program, run[i], flows[i]);
    }
    const TraceFact facts[] = {{"step", run.front().step}, {"run", run.front().run}};
    add_slice({.process = id_,
               .track = kPrograms,
               .name = program.name,
               .category = "program",
               .begin = nanoseconds(begin),
               .end = nanoseconds(end),
               .facts = facts});
  }

  void add_span(const Program& program, const Span& span, const Flows& flows) {
    const Op& op = program.ops[static_cast<size_t>(span.op)];
    std::string makes;
    if (!op.outputs.empty()) makes = module_[op.outputs[0]].type.text();
    const TraceFact facts[] = {
        {"step", span.step}, {"program", program.name}, {"phase", name_of(op.phase)},
        {"layer", op.layer}, {"ops", span.ops},         {"makes", makes}};
    add_slice({.process = id_,
               .track = track_of(span.lane),
               .name = op.name,
               .category = op.def->kind,
               .begin = nanoseconds(span.begin),
               .end = nanoseconds(span.end),
               .facts = facts,
               .to = flows.to,
               .from = flows.from});
  }

  // A rounding lets no slice begin before the last one of its track has ended.
  void add_slice(TraceSlice slice) {
    int64_t& free = ends_[slice.track];
    slice.begin = std::max(slice.begin, free);
    slice.end = free = std::max(slice.begin, slice.end);
    sink_.add_slice(slice);
  }

  const Module& module_;
  int id_;
  TraceSink& sink_;
  std::map<std::string, int> tracks_;
  std::map<int, int64_t> ends_;  // by track
  std::map<int32_t, std::optional<Order>> orders_;
  int64_t flows_ = 0;
};

template <typename Visit>
void each_process(const Profile& profile, TraceSink& sink, Visit&& visit) {
  int id = 0;
  for (const auto& [name, spans] :
       {std::pair{"measured", &profile.measured}, std::pair{"predicted", &profile.predicted}}) {
    if (spans->empty()) continue;
    Process process(profile, ++id, name, sink);
    visit(process, std::span<const Span>(*spans));
  }
}

}  // namespace

void describe_trace(const Profile& profile, TraceSink& sink) {
  each_process(profile, sink, [](Process& process, std::span<const Span> spans) {
    process.add(spans);
    process.add_memory(spans);
  });
}

void describe_memory(const Profile& profile, TraceSink& sink) {
  each_process(profile, sink,
               [](Process& process, std::span<const Span> spans) { process.add_memory(spans); });
}

}  // namespace snug
