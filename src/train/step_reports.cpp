#include "train/step_reports.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "hal/cpu/cpu_device.h"
#include "hal/cuda/probe.h"

namespace snug {
namespace {

// The sign of a NaN says nothing, and is not worth printing.
double number(const Pending& pending, size_t i) {
  float value = 0;
  std::memcpy(&value, pending.reading->piece(i).data(), sizeof(value));
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace

// Asking a driver takes a millisecond: not more than once a second.
void StepReports::look_around() {
  using Clock = std::chrono::steady_clock;
  const auto now = Clock::now();
  if (gauges_.process_bytes > 0 && now - looked_ < std::chrono::seconds(1)) return;
  looked_ = now;
  gauges_.process_bytes = resident_anonymous_bytes();
  if (executor_.device().kind() != DeviceKind::cuda) return;
  gauges_.context_bytes = executor_.device().context_bytes();
  const GpuGauges gpu = gauges_of_this_gpu();
  gauges_.utilisation = gpu.utilisation.value_or(-1);
  gauges_.watts = gpu.watts.value_or(-1);
  gauges_.clock_mhz = gpu.clock_mhz.value_or(-1);
}

StepReport StepReports::of(const Pending& pending, double seconds, int64_t peak_bytes) {
  constexpr double kLast = 0.2;
  look_around();
  StepReport r = gauges_;
  r.step = pending.step + 1;
  r.steps = run_.options.steps;
  r.loss = number(pending, 0) / static_cast<double>(pending.targets);
  r.grad_norm = number(pending, 1);
  r.lr = learning_rate(run_.schedule, pending.step);
  r.tokens = r.step * feeder_.tokens_per_step();
  r.seconds = seconds;
  r.tokens_per_s = static_cast<double>(feeder_.tokens_per_step()) / seconds;
  r.samples_per_s = static_cast<double>(feeder_.sequences_per_step()) / seconds;
  pace_ = pace_ == 0 ? seconds : (1 - kLast) * pace_ + kLast * seconds;
  r.hours_left = pace_ * static_cast<double>(r.steps - r.step) / 3600;
  r.planned_bytes = executor_.planned_bytes();
  r.allocated_bytes = executor_.allocated_bytes();
  r.peak_bytes = peak_bytes;
  if (run_.budget && !run_.within_free_memory()) r.budget_bytes = *run_.budget + run_.context;
  r.skipped = !std::isfinite(r.grad_norm);
  if (run_.recipe.loss_scale.on()) r.loss_scale = number(pending, 2);
  return r;
}

}  // namespace snug
