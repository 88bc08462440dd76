// The built-in models, as `snug models` lists them.
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

}  // namespace snug
