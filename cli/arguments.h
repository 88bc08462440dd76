// Turns arguments and config files into Options. Unknown words are refused with the nearest known
// one.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "settings/option.h"

namespace snug::cli {

// Adds MODEL and every option. Those that only train uses are accepted by plan too, unlisted: the
// line that trains, or its run.toml, can be planned first.
void add_options(CLI::App& app, Options& options, Verbs verb);

// The same without MODEL, for a verb that is given something else.
void add_run_options(CLI::App& app, Options& options, Verbs verb);

// Adds MODEL and the options of this verb only, without --config.
void add_some_options(CLI::App& app, Options& options, Verbs verb);

// Adds --model and what a plan of it depends on, all optional: for a verb whose question is
// another.
void add_plan_options(CLI::App& app, Options& options);

// A number of a verb's own, with its default in the help; what is no number is refused.
void add_number(CLI::App& app, const std::string& name, int64_t& member, std::string help);
void add_number(CLI::App& app, const std::string& name, double& member, std::string help);

// Parses; prints help and returns false when that was asked for; throws a usage error for anything
// wrong.
bool parse(CLI::App& app, const std::vector<std::string>& arguments);
// The same for words that no person typed: what they overrule in a file is no contradiction.
bool parse_words(CLI::App& app, const std::vector<std::string>& given);

// Throws a usage error where no MODEL is given.
void require_model(const CLI::App& app, const Options& options);
// Names of options, and `model`, that were given on the line or in a file.
std::vector<std::string> names_given(const CLI::App& app);

// The options' names, without dashes.
std::vector<std::string> option_names(const CLI::App& app);

// "`snug plan --help` lists the options"
std::string help_hint(const CLI::App& app);

}  // namespace snug::cli
