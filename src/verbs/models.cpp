// The built-in models, as `snug models` lists them, and the GPUs, as `snug gpus` does.
#include "cost/device_catalogue.h"
#include "models/families/catalogue.h"
#include "models/model.h"
#include "snug/snug.h"

namespace snug {

std::vector<ModelLine> models() {
  std::vector<ModelLine> lines;
  for (const CatalogueRow& entry : catalogue()) {
    const Model model = Model::load(entry.name);
    const ModelConfig& c = model.config();
    lines.push_back({std::string(entry.name), c.family, std::string(entry.notes),
                     model.parameters(), c.L, c.C, c.H, c.K, c.V});
  }
  return lines;
}

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
