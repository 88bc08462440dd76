// What `snug doctor --oom` says of the log of a run that ran out of memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/paint.h"
#include "pytorch/oom_log.h"
#include "report/plan_report.h"

namespace snug {

// The plan of the same model on the GPU of the log.
struct OomPlan {
  MemoryBreakdown memory;
  PlanFacts facts;
};

struct OomFacts {
  std::string file;
  pytorch::OomLog log;
  std::optional<OomPlan> plan;
};

// What the numbers mean, a sentence each.
std::vector<std::string> meaning_of(const pytorch::OomLog& log);
// What would help in the part of a step where it happened, the mildest first.
std::vector<std::string> help_for(const pytorch::OomLog& log);

std::string oom_table(const OomFacts& facts, const Paint& paint);
// One object: `file`, `line`, `kind`, the numbers in bytes, `phase`, `at`, `meaning`, `help`, `plan`.
std::string oom_json(const OomFacts& facts);

}  // namespace snug
