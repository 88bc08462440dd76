// What `snug train` says: a line for each step and evaluation, a status line, and how it ended.
#pragma once

#include <string>

#include "snug/snug.h"

namespace snug {

// One line each, without its end; at most 100 columns.
std::string step_line(const StepReport& report, const Options& options);
std::string step_json(const StepReport& report);
// A line of a run's history: all that is known of the step.
std::string history_json(const StepReport& report);
std::string eval_line(int64_t step, double loss);
std::string eval_json(int64_t step, double loss);

// The arena, as planned and as measured.
std::string memory_line(const StepReport& report);

// How far the training is and how long it will still take, its loss and pace, and the memory that it
// has against its budget: one line for a terminal.
std::string status_line(const StepReport& report);

// How far a transfer of `total` bytes is: "4.20 GiB of 14.19 GiB, 2.10 GiB/s".
std::string transfer_text(int64_t done, int64_t total, double seconds);

// "done after 100 steps in 3 m 20 s: loss 10.9876 -> 6.1234", held-out losses, where the model is.
// Empty where no step ran. `seconds`: of the whole run.
std::string train_summary(const TrainReport& report, double seconds);

}  // namespace snug
