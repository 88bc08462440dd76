// DeepSpeed's configuration files: as options of a run, and key by key.
//
//   snug::Options o;
//   o.model = "llama-7b";
//   o.gpu = "h100x8";
//   snug::PlanReport report = snug::plan(snug::with_deepspeed(o, "ds.json"));
#pragma once

#include <functional>
#include <string>

#include "snug/options.h"

namespace snug {

// The options with what the file says, but for those in `options.given`, which win; `said` is told
// where they differ, and what the file has that DeepSpeed does not know. Throws bad_input for what
// DeepSpeed's own code refuses, and a usage error for what would learn something else here.
Options with_deepspeed(const Options& options, const std::string& path,
                       const std::function<void(const std::string&)>& said = {});

struct DeepSpeedReport {
  bool fits = true;
  std::string table;  // for people
  std::string json;   // for programs: one object
};
// For every key of the file its effective value, and what it does here in bytes and time, or why it
// does nothing; then the plan. `doing` is told what is planned.
DeepSpeedReport deepspeed(const Options& asked, const std::string& path,
                          const std::function<void(const std::string&)>& doing = {});

}  // namespace snug
