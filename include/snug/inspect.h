// PyTorch's memory, explained: its own snapshots, and the text of its out-of-memory errors.
//
//   snug::InspectReport report = snug::inspect({.snapshot = "snapshot.pickle"});
//   std::puts(report.table.c_str());
#pragma once

#include <optional>
#include <string>

#include "snug/options.h"

namespace snug {

struct InspectOptions {
  std::string snapshot;        // of torch.cuda.memory._dump_snapshot
  bool blocks = false;         // list every block of the peak and of the end
  std::optional<Options> run;  // what was trained, as Snug would: changes get their cost
};

struct InspectReport {
  std::string table;  // for people
  std::string json;   // for programs: one object
};

// The peak and whose it is, idle bytes, growth, an allocation that failed, and what changes would
// save. Nothing in the file is executed. Throws bad_input where it is no snapshot.
InspectReport inspect(const InspectOptions& options);

// Explains the log of a run that ran out of memory: the kind of failure, the part of a step, the
// meaning of its numbers, and what would help. With a run, the changes that fit are planned.
// Throws bad_input where there is no such error in it.
InspectReport explain_out_of_memory(const std::string& log, const std::optional<Options>& run);

}  // namespace snug
