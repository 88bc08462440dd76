// What `snug plan` says: the same account as a table for a person and as an object for a program.
//
//   PlanFacts facts{.model = "gpt2", .batch = 8, .seq = 1024, .budget_bytes =
//   parse_bytes("24GiB")}; fmt::print("{}", render_plan(account, facts, stdout_is_terminal()));
//   fmt::print("{}\n", plan_json(account, facts).dump());
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/account.h"

namespace snug {

// A change that would help when the plan does not fit, ready to paste.
struct Advice {
  std::string change;  // "--batch 4"
  int64_t peak_bytes = 0;
  std::optional<double> step_ms;
};

// What was chosen where recompute was left open, and what that means.
struct ChosenRecompute {
  std::string policy;          // in words
  int64_t needed_without = 0;  // the arena of a step that keeps everything
  double extra_time = 0;       // modelled, as a part of that step's time
};

// What the account cannot know: the words of the question, and what was predicted beside bytes.
struct PlanFacts {
  std::string model;
  int64_t batch = 0;  // sequences per micro-batch
  int64_t seq = 0;
  int64_t accum = 1;                                                 // micro-batches per step
  int64_t sequences = 0;                                             // per step; 0: batch x accum
  nlohmann::ordered_json recipe = nlohmann::ordered_json::object();  // the resolved options
  std::vector<std::string> headline;    // the options worth a word in the table's head; empty: all
  std::optional<int64_t> budget_bytes;  // for the arena and the context together
  int64_t context_bytes = 0;            // of the device's driver and libraries, outside the arena
  std::optional<ChosenRecompute> chosen;
  std::optional<double> step_ms;  // none until a cost model has priced the step
  std::vector<Advice> advice;

  int64_t tokens_per_step() const;
};

bool fits(const Account& account, const PlanFacts& facts);

// At most 100 columns. colour: use terminal colours.
std::string render_plan(const Account& account, const PlanFacts& facts, bool colour);

// The fields of DESIGN.md ("Fields that others rely on") and where every number comes from.
nlohmann::ordered_json plan_json(const Account& account, const PlanFacts& facts);

}  // namespace snug
