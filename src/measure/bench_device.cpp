#include "measure/bench_device.h"

#include "base/error.h"
#include "hal/cuda/probe.h"

namespace snug {

std::string require_gpu(const Resolved& run) {
  if (run.options.device != DeviceChoice::cuda)
    throw usage_error("--device {}: bench measures a GPU", print_setting(run.options.device));
  const CudaProbe probe = probe_cuda();
  if (!probe.why_not.empty()) {
    throw device_error("{}", probe.why_not)
        .hint("`snug doctor` says what is there and what is missing");
  }
  return probe.driver.gpus.front().name;
}

}  // namespace snug
