// What `snug deepspeed` says: the file key by key, and the plan that it makes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/paint.h"
#include "report/plan_report.h"

namespace snug {

// The plan with a key, less the plan without it.
struct KeyEffect {
  int64_t device_bytes = 0, host_bytes = 0, disk_bytes = 0;
  double step_ms = 0;
};

struct DeepSpeedRow {
  std::string key;      // as the file has it: "zero_optimization.stage"
  std::string value;    // effective
  std::string flags;    // that it becomes; empty: none
  std::string instead;  // flags of the command line that win over it
  std::string here;     // what it does, or why it does nothing
  bool known = true;    // to DeepSpeed
  bool refused = false;
  std::optional<KeyEffect> effect;
};

struct DeepSpeedFacts {
  std::string file;
  std::vector<DeepSpeedRow> rows;
  std::string flags;  // of the whole file
};

std::string deepspeed_table(const DeepSpeedFacts& file, const MemoryBreakdown& memory,
                            const PlanFacts& facts, const Paint& paint);
// One object: `file`, `keys`, `flags`, `plan`.
std::string deepspeed_json(const DeepSpeedFacts& file, const MemoryBreakdown& memory,
                           const PlanFacts& facts);

}  // namespace snug
