// What `snug gpus` says.
#pragma once

#include <span>
#include <string>

#include "snug/snug.h"

namespace snug {

std::string gpus_table(std::span<const GpuLine> gpus);
// A list of objects.
std::string gpus_json(std::span<const GpuLine> gpus);

}  // namespace snug
