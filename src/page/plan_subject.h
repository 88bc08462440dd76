// A plan as a subject of a page.
//
//   page_html("gpt2", {plan_subject({plan.module, plan.memory, facts, predicted_spans(...), "snug plan gpt2"})});
#pragma once

#include <string>
#include <vector>

#include "ir/span.h"
#include "page/columns.h"
#include "report/plan_report.h"

namespace snug {

struct PlanOnPage {
  const Module& module;  // placed
  const MemoryBreakdown& memory;
  const PlanFacts& facts;
  std::vector<Span> predicted;  // of a step
  std::string command;          // what was asked: changes are appended to it
};

// `kind`, `name`, `answer` and `facts` come first; then the memory, lanes and tables. A run has the same, and its own
// in addition.
Json plan_subject(const PlanOnPage& plan);

// "snug plan gpt2 --batch 8": what was given, ready to paste.
std::string command_line(std::string_view verb, const Options& options);

}  // namespace snug
