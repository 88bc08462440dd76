// `snug bench`: Snug and a peer on the same GPU, one after another, each from the first allocation
// to the last; or each op of a step and the device's roofline.
#include "snug/bench.h"

#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/median.h"
#include "hal/cuda/probe.h"
#include "measure/bench_device.h"
#include "measure/peer.h"
#include "measure/roofline.h"
#include "recipe/resolve.h"
#include "search/plan_run.h"
#include "snug/snug.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

// Steps before those that count: kernels are loaded, programs are recorded, and the GPU is as hot
// and its clock as low as in a long training, which an H200 is after 3 s.
int64_t warm_up_steps(const Resolved& run) {
  constexpr int64_t kLeast = 3;
  constexpr double kSeconds = 5;
  return std::max(kLeast, static_cast<int64_t>(std::ceil(kSeconds / plan_run(run).step_seconds)));
}

// A step is the time between two reports: the loop reads a step's loss when it is over, and the
// device continues meanwhile.
BenchRow train_snug(const Resolved& run, int64_t warm_up) {
  BenchRow row{.name = "snug"};
  const std::optional<int64_t> before = gpu_used_bytes(0);
  std::vector<double> ms;
  Clock::time_point last;
  TrainObserver observer;
  observer.stepped = [&](const StepReport& r) {
    const auto now = Clock::now();
    if (r.step > warm_up)
      ms.push_back(std::chrono::duration<double, std::milli>(now - last).count());
    last = now;
    row.arena_bytes = r.planned_bytes;
    if (r.step == r.steps) row.peak_bytes = gpu_used_bytes(0).value_or(0) - before.value_or(0);
  };
  Options asked = run.asked;
  asked.accum = run.options.accum;  // as the peer does: a search may not split them further
  asked.steps += warm_up;
  if (!asked.tune) asked.tune = Tune::thorough;
  train(asked, observer);
  const Options& o = run.options;
  row.step_ms = median(std::move(ms));
  row.tokens_per_s = static_cast<double>(o.global_batch * o.seq) / row.step_ms * 1e3;
  return row;
}

}  // namespace

Options bench_options() {
  Options o;
  o.device = DeviceChoice::cuda;
  o.precision = ComputeType::bf16;
  o.master = Master::none;
  o.grad_dtype = ComputeType::bf16;
  o.state_dtype = StateType::bf16;
  o.steps = 10;
  return o;
}

PeerReport bench_peer(const Options& options, const Peer& peer, const PeerObserver& observer) {
  const Resolved run = resolve(options);
  require_comparable(run);
  PeerReport report{.device = require_gpu(run),
                    .batch = run.options.batch,
                    .seq = run.options.seq,
                    .accum = run.options.accum};
  for (const std::string& mode : peer.modes) row_name(mode);  // throws before anything runs
  if (!std::filesystem::exists(peer.script))
    throw bad_input("the peer's script {} is not there", peer.script);
  if (observer.started) observer.started(report);
  const ConfigDirectory config(run.model);
  const int64_t warm_up = warm_up_steps(run);
  const auto add = [&](const std::string& name, const std::function<BenchRow()>& measure) {
    if (observer.running) observer.running(name);
    report.rows.push_back(measure());
    if (observer.measured) observer.measured(report.rows.back());
  };
  add("snug", [&] { return train_snug(run, warm_up); });
  for (const std::string& mode : peer.modes)
    add(row_name(mode), [&] { return train_peer(run, peer, config.path(), mode, warm_up); });
  return report;
}

RooflineReport roofline(const Options& options) { return measure_roofline(resolve(options)); }

}  // namespace snug
