// The built-in models, as `snug models` lists them, and the GPUs of the catalogue.
#include "cost/device_catalogue.h"
#include "models/catalogue.h"
#include "models/model.h"
#include "snug/snug.h"

namespace snug {

std::vector<ModelLine> models() {
  std::vector<ModelLine> lines;
  for (const CatalogueEntry& entry : catalogue()) {
    const Model model = Model::load(entry.name);
    const ModelConfig& c = model.config();
    lines.push_back(
        {entry.name, c.family, entry.notes, model.parameters(), c.L, c.C, c.H, c.K, c.V});
  }
  return lines;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const DeviceSpec& device : device_catalogue()) {
    if (device.backend == Backend::cuda) names.push_back(device.name);
  }
  return names;
}

}  // namespace snug
