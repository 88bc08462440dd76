#include "verbs/bench_device.h"

#include "base/error.h"
#include "hal/cuda/probe.h"
#include "snug/bench.h"

namespace snug {

Options bench_options() {
  Options o;
  o.device = "cuda";
  o.precision = "bf16";
  o.master = "none";
  o.grad_dtype = "bf16";
  o.state_dtype = "bf16";
  o.steps = 10;
  return o;
}

std::string require_gpu(const Resolved& run) {
  if (run.options.device != "cuda")
    throw usage_error("--device {}: bench measures a GPU", run.options.device);
  const CudaProbe probe = probe_cuda();
  if (!probe.why_not.empty()) {
    throw device_error("{}", probe.why_not)
        .hint("`snug doctor` says what is there and what is missing");
  }
  return probe.driver.gpus.front().name;
}

}  // namespace snug
