#include "page/axis.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"
#include "ir/lifetime.h"
#include "profile/memory_timeline.h"

namespace snug {

Axis::Axis(const Module& module, const MemoryBreakdown& memory, int64_t most) : module_(module) {
  const auto show = [&](int32_t program) {
    if (program >= 0 && std::ranges::find(programs_, program) == programs_.end())
      programs_.push_back(program);
  };
  for (const int32_t program : programs_in_step(module)) show(program);
  for (const SpaceBreakdown& space : memory.spaces) show(module.program_index(space.peak.program));
  const auto ops = [&](int32_t program) {
    return std::ssize(module.programs[static_cast<size_t>(program)].ops);
  };
  int64_t all = 0;
  for (const int32_t program : programs_) all += ops(program);
  stride_ = std::max<int64_t>(1, ceil_div(all, most));
  first_.assign(module.programs.size(), -1);
  for (const int32_t program : programs_) {
    first_[static_cast<size_t>(program)] = size_;
    size_ += ceil_div(ops(program), stride_);
  }
}

// In microseconds; lanes run side by side, so an op of the list may begin before the one ahead of it:
// it is drawn where that one is. Every program comes after the one before it.
Json Axis::begins(const std::vector<Span>& predicted) const {
  std::map<int32_t, std::vector<const Span*>> first_run;  // by program
  for (const Span& span : predicted) {
    std::vector<const Span*>& run = first_run[span.program];
    if (run.empty() || run.front()->run == span.run) run.push_back(&span);
  }
  std::vector<int64_t> out;
  double start = 0;
  for (const int32_t program : programs_) {
    const auto found = first_run.find(program);
    if (found == first_run.end()) return nullptr;  // a program outside the step has no prediction
    const double zero = found->second.front()->begin;
    double at = 0, end = 0;
    for (const Span* span : found->second) {
      at = std::max(at, span->begin - zero);
      end = std::max(end, span->end - zero);
      if (span->op % stride_ == 0)
        out.push_back(static_cast<int64_t>(std::llround((start + at) * 1e6)));
    }
    start += end;
  }
  out.push_back(static_cast<int64_t>(std::llround(start * 1e6)));
  return std::ssize(out) == size_ + 1 ? Json(out) : Json(nullptr);
}

// Of the ops of each instant, the one at which most of the device's bytes live.
std::vector<int64_t> Axis::fullest(int32_t program) const {
  const int64_t ops = std::ssize(module_.programs[static_cast<size_t>(program)].ops);
  std::vector<int64_t> out;
  const std::vector<CategoryBytes> live =
      stride_ > 1 ? timeline(module_, program, Space::device) : std::vector<CategoryBytes>();
  for (int64_t first = 0; first < ops; first += stride_) {
    int64_t most = first;
    for (int64_t op = first + 1; op < std::min(first + stride_, ops); ++op)
      if (total(live[static_cast<size_t>(op)]) > total(live[static_cast<size_t>(most)])) most = op;
    out.push_back(most);
  }
  return out;
}

Json Axis::json(Texts& texts, const std::vector<Span>& predicted) const {
  Json sections = Json::array();
  Json names = Json::array(), layers = Json::array(), phases = Json::array();
  for (const int32_t p : programs_) {
    const Program& program = module_.programs[static_cast<size_t>(p)];
    sections.push_back({{"name", program.name},
                        {"first", instant(p, 0)},
                        {"runs", runs_per_step(module_, program.name)}});
    Phase phase = program.ops.empty() ? Phase::forward : program.ops[0].phase;
    for (const int64_t i : fullest(p)) {
      const Op& op = program.ops[static_cast<size_t>(i)];
      if (op.lane == kComputeLane) phase = op.phase;  // other lanes do not change the phase
      names.push_back(texts.index(without_layer(module_.layers, op.name, op.layer)));
      layers.push_back(op.layer);
      phases.push_back(texts.index(name_of(phase)));
    }
  }
  return {{"unit", "op"},  {"size", size_},   {"stride", stride_}, {"sections", sections},
          {"name", names}, {"layer", layers}, {"phase", phases},   {"begin_us", begins(predicted)}};
}

}  // namespace snug
