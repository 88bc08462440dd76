// The GPUs that a plan may name, as `snug gpus` lists them.
#include "cost/device_catalogue.h"
#include "snug/snug.h"

namespace snug {

std::vector<GpuLine> gpus() {
  std::vector<GpuLine> lines;
  for (const DeviceSpec& gpu : device_catalogue()) {
    const auto clouds = cloud_names(gpu);
    lines.push_back({.name = gpu.name,
                     .title = gpu.title,
                     .clouds = {clouds.begin(), clouds.end()},
                     .capability = fmt::format("{}.{}", gpu.capability / 10, gpu.capability % 10),
                     .memory_bytes = gpu.memory_bytes,
                     .fp32_flops = gpu.fp32_flops,
                     .tf32_flops = gpu.tf32_flops,
                     .bf16_flops = gpu.bf16_flops,
                     .fp16_flops = gpu.fp16_flops,
                     .bytes_per_s = gpu.bytes_per_s});
  }
  return lines;
}

}  // namespace snug
