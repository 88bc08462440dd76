#include "runtime/op_times.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/median.h"
#include "hal/cuda/stream_times.h"

namespace snug {
namespace {

constexpr size_t kRuns = 7;
constexpr size_t kAlone = 15;  // launches of an op alone
// Flops per byte. Elementwise ops, norms and updates stay below 20, products and attention at
// training shapes are beyond 100.
constexpr int64_t kArithmetic = 25;

// As stream_times_ms, also on a device whose kernels have run when they return.
std::vector<double> times_ms(Device& device, size_t count,
                             const std::function<void(size_t)>& enqueue) {
  if (device.stream() != nullptr) return stream_times_ms(device, count, enqueue);
  using Clock = std::chrono::steady_clock;
  std::vector<double> out;
  for (size_t i = 0; i < count; ++i) {
    const auto start = Clock::now();
    enqueue(i);
    out.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return out;
}

// Ops that do the same work: kind, types and attributes agree.
bool same_work(const Module& module, const Op& a, const Op& b) {
  const auto same_types = [&](const std::vector<ValueId>& x, const std::vector<ValueId>& y) {
    return std::ranges::equal(x, y, [&](ValueId p, ValueId q) {
      return p.valid() == q.valid() && (!p.valid() || module[p].type == module[q].type);
    });
  };
  return a.def == b.def && a.attrs == b.attrs && same_types(a.inputs, b.inputs) &&
         same_types(a.outputs, b.outputs);
}

// For each op that is to be timed alone, the first that does the same work; -1 for the others.
std::vector<int64_t> representatives(const Module& module, const Program& program,
                                     Backend backend) {
  std::vector<int64_t> out(program.ops.size(), -1);
  std::vector<size_t> firsts;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (!is_arithmetic(cost_of(module, op, backend))) continue;
    const auto first = std::ranges::find_if(
        firsts, [&](size_t f) { return same_work(module, program.ops[f], op); });
    out[i] = static_cast<int64_t>(first == firsts.end() ? i : *first);
    if (first == firsts.end()) firsts.push_back(i);
  }
  return out;
}

// Medians of kRuns runs, op by op.
std::vector<double> in_place_ms(Executor& executor, size_t program, size_t ops) {
  std::vector<std::vector<double>> samples(ops);
  for (size_t run = 0; run < kRuns; ++run) {
    const auto ms =
        times_ms(executor.device(), ops, [&](size_t op) { executor.enqueue(program, op); });
    for (size_t op = 0; op < ops; ++op) samples[op].push_back(ms[op]);
  }
  std::vector<double> out;
  for (const auto& one : samples) out.push_back(median(one));
  return out;
}

// One run in which every representative is launched kAlone times more, at its place: it reads real
// values, and the device never idles.
std::map<size_t, double> alone_ms(Executor& executor, size_t program,
                                  const std::vector<int64_t>& representative) {
  std::vector<size_t> launches;
  for (size_t op = 0; op < representative.size(); ++op) {
    const bool alone = representative[op] == static_cast<int64_t>(op);
    launches.insert(launches.end(), alone ? 1 + kAlone : 1, op);
  }
  const auto ms = times_ms(executor.device(), launches.size(),
                           [&](size_t i) { executor.enqueue(program, launches[i]); });
  std::map<size_t, std::vector<double>> samples;
  for (size_t i = 1; i < launches.size(); ++i)
    if (launches[i] == launches[i - 1]) samples[launches[i]].push_back(ms[i]);
  std::map<size_t, double> out;
  for (auto& [op, values] : samples) out[op] = median(std::move(values));
  return out;
}

}  // namespace

bool is_arithmetic(const Cost& cost) {
  return cost.flops / kArithmetic > cost.bytes_read + cost.bytes_written;
}

std::vector<OpTime> time_ops(Executor& executor, std::string_view name) {
  const Module& module = executor.module();
  const auto program = static_cast<size_t>(module.program_index(name));
  const Program& ops = module.program(name);
  const Backend backend =
      executor.device().kind() == DeviceKind::cuda ? Backend::cuda : Backend::cpu;
  const std::vector<int64_t> representative = representatives(module, ops, backend);
  const std::vector<double> ms = in_place_ms(executor, program, ops.ops.size());
  const std::map<size_t, double> alone = alone_ms(executor, program, representative);
  std::vector<OpTime> out;
  for (size_t op = 0; op < ms.size(); ++op) {
    const int64_t first = representative[op];
    out.push_back({ms[op], first < 0 ? 0 : alone.at(static_cast<size_t>(first))});
  }
  return out;
}

}  // namespace snug
