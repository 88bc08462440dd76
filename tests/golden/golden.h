// Compares a module's text with a stored one: tests/golden/NAME.snug. SNUG_UPDATE_GOLDEN=1 rewrites
// the files; review the difference as you would review code.
#pragma once

#include <string_view>

#include "ir/program.h"

namespace snug {

void expect_golden(const Module& module, std::string_view name);

}  // namespace snug
