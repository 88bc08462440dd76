#include "machine/here.h"

#include "cost/device_costs.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cuda/cuda_device.h"
#include "hal/cuda/probe.h"
#include "machine/host_budget.h"

namespace snug {

int64_t budget_of_free(int64_t free_bytes) {
  constexpr int64_t kGrain = int64_t{16} << 20;
  return std::max<int64_t>(0, free_bytes / kGrain - 1) * kGrain;
}

std::optional<int64_t> free_budget(const Options& o, int gpu) {
  if (o.budget.given() || !o.gpu.empty() || device_of(o) != DeviceChoice::cuda || !gpu_answers())
    return {};
  if (const auto free = gpu_free_bytes(gpu)) return budget_of_free(*free);
  return budget_of_free(cuda_device(gpu)->memory().free);
}

Resolved resolve_here(const Options& options) {
  Resolved run = resolve(options, free_budget(options));
  if (run.options.device == DeviceChoice::cuda && run.options.gpu.empty() && gpu_answers())
    limit_host(run);
  return run;
}

void limit_host(Resolved& run) {
  if (!run.host_budget && run.options.device != DeviceChoice::null)
    run.host_budget = host_budget_of(available_memory_bytes());
}

void leave_arena_to_cpu(PlannedRun& planned) {
  Resolved& run = planned.run;
  if (run.options.device == DeviceChoice::cpu && !run.options.host_budget.given())
    run.host_budget = host_budget_of(available_memory_bytes(), arena_of(planned.plan));
}

}  // namespace snug
