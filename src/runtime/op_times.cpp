#include "runtime/op_times.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

#include "base/median.h"
#include "cost/op_work.h"
#include "hal/cuda/stream_times.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kRuns = 7;
constexpr size_t kAlone = 15;  // launches of an op alone

// As stream_times_ms, also on a device whose kernels have run when they return.
std::vector<double> times_ms(Device& device, size_t count,
                             const std::function<void(size_t)>& enqueue) {
  if (device.stream() != nullptr) return stream_times_ms(device, count, enqueue);
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

double bytes_of(const Module& module, const Op& op, Backend backend) {
  const Cost cost = cost_of(module, op, backend);
  return static_cast<double>(cost.bytes_read + cost.bytes_written);
}

// A program as the executor enqueues it: in batches of ops that follow each other.
class TimedProgram {
 public:
  TimedProgram(Executor& executor, std::string_view name)
      : executor_(executor),
        name_(name),
        index_(static_cast<size_t>(executor.module().program_index(name))) {
    const size_t ops = executor.module().program(name).ops.size();
    for (size_t op = 0; op < ops; op += executor.batch_size(index_, op)) firsts_.push_back(op);
    samples_.resize(firsts_.size());
  }

  // One run, batch by batch.
  void run() {
    const auto ms = times_ms(executor_.device(), firsts_.size(),
                             [&](size_t i) { executor_.enqueue_batch(index_, firsts_[i]); });
    for (size_t i = 0; i < ms.size(); ++i) samples_[i].push_back(ms[i]);
  }

  std::vector<double> batches_ms() const {
    std::vector<double> out;
    for (const auto& one : samples_) out.push_back(typical(one));
    return out;
  }

  // A run as in training; on a device with a stream it has been recorded by then.
  double whole_ms(size_t runs) const {
    constexpr size_t kToRecord = 2;
    auto ms = times_ms(executor_.device(), kToRecord + runs, [&](size_t) { executor_.run(name_); });
    ms.erase(ms.begin(), ms.begin() + kToRecord);
    return typical(ms);
  }

  std::vector<double> by_op(const std::vector<double>& batches) const {
    const Module& module = executor_.module();
    const std::vector<Op>& ops = module.programs[index_].ops;
    std::vector<double> out;
    for (size_t i = 0; i < firsts_.size(); ++i) {
      const size_t end = i + 1 < firsts_.size() ? firsts_[i + 1] : ops.size();
      double all = 0;
      for (size_t op = firsts_[i]; op < end; ++op) all += bytes_of(module, ops[op], backend());
      for (size_t op = firsts_[i]; op < end; ++op) {
        const bool alone = end - firsts_[i] == 1;
        out.push_back(batches[i] * (alone ? 1 : bytes_of(module, ops[op], backend()) / all));
      }
    }
    return out;
  }

  bool enqueues() const { return executor_.device().stream() != nullptr; }
  Backend backend() const { return enqueues() ? Backend::cuda : Backend::cpu; }

 private:
  // Where other processes take the cores from time to time, what they add is not the op's: there
  // it is the lower quartile.
  double typical(std::vector<double> values) const {
    if (enqueues()) return median(std::move(values));
    std::ranges::sort(values);
    return values[values.size() / 4];
  }

  Executor& executor_;
  std::string name_;
  size_t index_;
  std::vector<size_t> firsts_;  // of every batch
  std::vector<std::vector<double>> samples_;
};

// Observing a batch adds about the same to each of them, relatively most to small ones; the rest of
// the difference to a whole run is divided among all in proportion to their lengths.
std::vector<double> fitted(std::vector<double> batches, double whole) {
  const auto sum = [&] { return std::accumulate(batches.begin(), batches.end(), 0.0); };
  const double added = std::max(0.0, sum() - whole) / static_cast<double>(batches.size());
  for (double& ms : batches) ms = std::max(ms - added, ms / 2);
  const double scale = whole / sum();
  for (double& ms : batches) ms *= scale;
  return batches;
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

std::vector<OpTime> time_ops(Executor& executor, std::string_view name) {
  const Module& module = executor.module();
  TimedProgram timed(executor, name);
  const auto index = static_cast<size_t>(module.program_index(name));
  const std::vector<int64_t> representative =
      representatives(module, module.program(name), timed.backend());
  for (size_t run = 0; run < kRuns; ++run) timed.run();
  const std::vector<double> ms = timed.by_op(timed.batches_ms());
  const std::map<size_t, double> alone = alone_ms(executor, index, representative);
  std::vector<OpTime> out;
  for (size_t op = 0; op < ms.size(); ++op) {
    const int64_t first = representative[op];
    out.push_back({ms[op], first < 0 ? 0 : alone.at(static_cast<size_t>(first))});
  }
  return out;
}

std::vector<double> ms_within_program(Executor& executor, std::string_view name,
                                      const TimingEffort& effort) {
  TimedProgram timed(executor, name);
  const auto start = Clock::now();
  size_t runs = 0;
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (; runs < effort.least || (runs < effort.most && passed() < effort.seconds); ++runs)
    timed.run();
  // A host runs ops one by one in training too: their times are the whole.
  if (!timed.enqueues()) return timed.by_op(timed.batches_ms());
  return timed.by_op(fitted(timed.batches_ms(), timed.whole_ms(runs)));
}

std::vector<std::pair<std::string, int64_t>> programs_of_step(const Module& module) {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const Repeat& region : module.step)
    for (const std::string& name : region.programs) out.emplace_back(name, region.times);
  return out;
}

}  // namespace snug
