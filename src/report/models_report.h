// What `snug models` says.
#pragma once

#include <span>
#include <string>

#include "snug/snug.h"

namespace snug {

std::string models_table(std::span<const ModelLine> models);
// A list of objects.
std::string models_json(std::span<const ModelLine> models);

}  // namespace snug
