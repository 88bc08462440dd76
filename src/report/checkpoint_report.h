// What `snug checkpoint` says.
#pragma once

#include <span>
#include <string>

#include "snug/snug.h"

namespace snug {

std::string checkpoints_table(std::span<const CheckpointLine> checkpoints);
// A list of objects.
std::string checkpoints_json(std::span<const CheckpointLine> checkpoints);

}  // namespace snug
