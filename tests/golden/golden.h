// Compares a module's text with a stored one: tests/golden/NAME.snug, or for a technique's pass
// src/techniques/NAME.snug ("offload/offload_disk"). SNUG_UPDATE_GOLDEN=1 rewrites the files; review
// the difference as you would review code. Each module must also verify and read back from its text.
#pragma once

#include <string_view>

#include "ir/program.h"

namespace snug {

// what: a sentence for the reader of the file, written above the text.
void expect_golden(const Module& module, std::string_view name, std::string_view what = {});

// The same of any text, in the file tests/golden/FILE.
void expect_golden_text(std::string_view text, std::string_view file, std::string_view what = {});

}  // namespace snug
