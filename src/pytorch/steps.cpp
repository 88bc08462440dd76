#include "pytorch/steps.h"

#include <algorithm>

namespace snug::pytorch {
namespace {

// Is anything of the trace's allocations known to be in Python or C++?
bool have_frames(const DeviceSnapshot& device) {
  int64_t with = 0, all = 0;
  for (const Event& e : device.trace) {
    if (e.action != Action::alloc) continue;
    ++all;
    with += e.stack != 0 ? 1 : 0;
  }
  return with * 20 > all;
}

// Runs of events of one phase, with nothing of another phase of training between them.
std::vector<Step> runs_of(Phase phase, const DeviceSnapshot& device,
                          const std::vector<StackFacts>& stacks) {
  std::vector<Step> runs;
  bool inside = false;
  for (size_t i = 0; i < device.trace.size(); ++i) {
    const Event& event = device.trace[i];
    const Phase now = stacks[event.stack].phase;
    const auto moment = static_cast<int64_t>(i) + 1;
    if (now == phase) {
      if (!inside) runs.push_back({.update = moment});
      runs.back().end = moment;
      inside = true;
    } else if (event.action == Action::alloc && (now == Phase::forward || now == Phase::backward)) {
      inside = false;
    }
  }
  for (size_t i = 0; i < runs.size(); ++i) runs[i].begin = i == 0 ? 0 : runs[i - 1].end;
  return runs;
}

// z[i]: how far the text repeats from i on as it begins.
std::vector<size_t> z_function(const std::vector<uint64_t>& text) {
  std::vector<size_t> z(text.size());
  size_t left = 0, right = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < text.size() && text[z[i]] == text[i + z[i]]) ++z[i];
    if (i + z[i] > right) {
      left = i;
      right = i + z[i];
    }
  }
  return z;
}

// Steps as long as what repeats longest at the end of the trace.
std::vector<Step> repetitions(const DeviceSnapshot& device) {
  constexpr size_t kLeast = 16;  // events of a step
  std::vector<uint64_t> text;    // backwards
  std::vector<int64_t> moments;
  for (size_t i = device.trace.size(); i-- > 0;) {
    const Event& e = device.trace[i];
    if (e.action != Action::alloc && e.action != Action::free_requested) continue;
    text.push_back(static_cast<uint64_t>(e.bytes) << 1 | (e.action == Action::alloc ? 1U : 0U));
    moments.push_back(static_cast<int64_t>(i) + 1);
  }
  const std::vector<size_t> z = z_function(text);
  size_t period = 0;
  for (size_t p = kLeast; p < z.size(); ++p)
    if (z[p] >= p && (period == 0 || z[p] + p > z[period] + period)) period = p;
  if (period == 0) return {};
  std::vector<Step> steps;
  const size_t whole = (z[period] + period) / period;
  for (size_t i = whole; i-- > 0;) {
    const size_t first = std::min((i + 1) * period, moments.size()) - 1;
    steps.push_back(
        {.begin = moments[first], .update = moments[i * period], .end = moments[i * period]});
  }
  return steps;
}

}  // namespace

size_t Steps::at(int64_t moment) const {
  return static_cast<size_t>(std::ranges::lower_bound(all, moment, {}, &Step::end) - all.begin());
}

Steps find_steps(const DeviceSnapshot& device, const std::vector<StackFacts>& stacks) {
  Steps steps;
  steps.has_frames = have_frames(device);
  steps.all = runs_of(Phase::optimizer, device, stacks);
  if (!steps.all.empty()) {
    steps.from = StepsFrom::optimizer;
    return steps;
  }
  steps.all = runs_of(Phase::backward, device, stacks);
  if (!steps.all.empty()) {
    for (Step& step : steps.all) step.update = step.end;
    steps.from = StepsFrom::backward;
    return steps;
  }
  steps.all = repetitions(device);
  if (!steps.all.empty()) steps.from = StepsFrom::repetition;
  return steps;
}

}  // namespace snug::pytorch
