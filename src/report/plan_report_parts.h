// Parts of the report's text that have files of their own.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/paint.h"
#include "report/plan_report.h"

namespace snug {

// What is planned, whether it fits, and its speed: a plan in a few lines.
std::string summary_text(const MemoryBreakdown& memory, const PlanFacts& facts, const Paint& paint);

// Does it fit, by how much, and what no change can help; without a budget what it needs.
std::string verdict_text(const MemoryBreakdown& memory, const PlanFacts& facts, const Paint& paint);

// What to change: to make it fit, or to be faster or smaller than it is.
std::string changes_text(const MemoryBreakdown& memory, const PlanFacts& facts, const Paint& paint);

// What each layer holds.
std::string layers_text(const MemoryBreakdown& memory, const Paint& paint);

// What was chosen where something was left open; and with --explain what else was considered.
std::string choice_text(const PlanFacts& facts);
std::string runners_up_text(const PlanFacts& facts, const Paint& paint);
// The meshes that were considered, where they were searched.
std::string meshes_text(const PlanFacts& facts, const Paint& paint);

// Words, or flags each with its value, in lines of at most so many columns.
std::vector<std::string> lines_of(std::span<const std::string> words, size_t columns);
std::vector<std::string> flag_lines(std::string_view flags, size_t columns);

// Does the plan use more than one lane, or bytes outside the device? Then these two tables are
// shown: the bytes of every space, and what each lane takes.
bool leaves_device(const MemoryBreakdown& memory, const PlanFacts& facts);
std::string spaces_text(const MemoryBreakdown& memory, const Paint& paint);
// The stages of a pipeline; empty where there is one.
std::string stages_text(const PlanFacts& facts, const Paint& paint);
std::string lanes_text(const PlanFacts& facts, const Paint& paint);

inline constexpr int kTableColumns = 98;
std::string some_bytes(int64_t bytes);  // "-": none
std::string rule(int columns);

// A line of the facts below the bytes: "peak     backward, ..."
std::string fact(std::string_view name, std::string_view text);

// "812.3 ms", "9.01 s": three digits and more, for times that are compared.
std::string step_text(double ms);

// "params, grads and optimizer": what of the state the plan has, and its bytes.
struct StateBytes {
  std::string names;
  int64_t bytes = 0;
};
StateBytes state_of(const MemoryBreakdown& memory);

}  // namespace snug
