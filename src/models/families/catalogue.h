// The built-in models: published sizes under short names. An entry is the config.json that the
// model has, so a built-in name and a downloaded directory go the same way.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/families/family.h"

namespace snug {

const std::vector<CatalogueRow>& catalogue();  // by family, then by size
std::vector<std::string> catalogue_names();
std::optional<HfConfig> find_in_catalogue(std::string_view name);

}  // namespace snug
