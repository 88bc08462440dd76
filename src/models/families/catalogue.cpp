#include "models/families/catalogue.h"

#include <algorithm>

namespace snug {

const std::vector<CatalogueRow>& catalogue() {
  static const std::vector<CatalogueRow> all = [] {
    std::vector<CatalogueRow> rows;
    for (const Family* family : families())
      std::ranges::move(family->published(), std::back_inserter(rows));
    return rows;
  }();
  return all;
}

std::vector<std::string> catalogue_names() {
  std::vector<std::string> names;
  for (const CatalogueRow& row : catalogue()) names.emplace_back(row.name);
  return names;
}

std::optional<HfConfig> find_in_catalogue(std::string_view name) {
  const auto& all = catalogue();
  const auto row = std::ranges::find(all, name, &CatalogueRow::name);
  if (row == all.end()) return std::nullopt;
  return parse_hf_config(row->config, name);
}

}  // namespace snug
