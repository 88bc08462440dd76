// What `snug plan A B` says: two plans side by side, and what the second is more than the first.
#pragma once

#include <string>

#include "base/paint.h"
#include "report/plan_report.h"

namespace snug {

struct ComparedPlan {
  std::string name;
  const MemoryBreakdown& memory;
  PlanFacts facts;

  int64_t arena() const { return memory.device().placement.arena_bytes; }
};

std::string compare_table(const ComparedPlan& a, const ComparedPlan& b, const Paint& paint);
// One object with `a`, `b` and `difference`.
std::string compare_json(const ComparedPlan& a, const ComparedPlan& b);

}  // namespace snug
