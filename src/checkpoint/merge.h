// An adapter added to its model: W + (alpha / r) B A, tensor by tensor and some rows at a time, in
// little memory.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "models/model.h"

namespace snug {

// `base` has weights. Throws bad_input, before anything is written, where the adapter is of another
// model.
void save_merged(const Model& base, const std::filesystem::path& adapter,
                 const std::filesystem::path& directory,
                 const std::function<void(const std::string&)>& doing);

}  // namespace snug
