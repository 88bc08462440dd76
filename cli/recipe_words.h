// Words of a line that ask for a plan: a model, or a recipe in a file (run.toml), each with the
// options of the line.
#pragma once

#include <string>
#include <vector>

#include "arguments.h"

namespace snug::cli {

bool is_recipe(const std::string& word);

// Every option of a run that was given, as one word each: all but the models and the files that
// options come from.
std::vector<std::string> given_options(const CLI::App& app);

// The options of one word of the line: a model, or a recipe that may leave its model to others.
// `verb`: "snug plan", for what is wrong.
Options options_of(const std::string& word, std::vector<std::string> given, const char* verb);

}  // namespace snug::cli
