#include "train/run_records.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "report/train_report.h"

namespace snug {

void require_writable(const std::filesystem::path& directory, std::string_view option) {
  if (directory.empty()) return;
  std::error_code failure;
  std::filesystem::path at = std::filesystem::absolute(directory, failure);
  while (!std::filesystem::exists(at, failure) && at.has_relative_path()) at = at.parent_path();
  if (std::filesystem::is_directory(at, failure) && ::access(at.c_str(), W_OK) == 0) return;
  throw usage_error("--{} {} cannot be written to: {} is no directory that takes files", option,
                    directory.string(), at.string());
}

RunRecords::RunRecords(const PlannedRun& planned, const TrainObserver& observer,
                       const Resumed* resumed, bool first_rank)
    : observer_(observer), directory_(planned.run.options.out) {
  if (!first_rank) return;
  if (!directory_.empty()) {
    history_.emplace(directory_ / kHistoryFile);
    if (resumed != nullptr)
      history_->go_on_from(resumed->checkpoint.parent_path() / kHistoryFile,
                           resumed->manifest.step);
  }
  if (planned.run.options.tensorboard.empty()) return;
  events_.emplace(planned.run.options.tensorboard);
  const CategoryBytes& peak = planned.plan.memory.device().breakdown;
  for (size_t c = 0; c < peak.size(); ++c)
    if (peak[c] > 0)
      memory_.push_back({fmt::format("memory/{}", name_of(static_cast<Category>(c))),
                         static_cast<double>(peak[c])});
}

void RunRecords::write(const std::string& line, int64_t step, std::span<const Scalar> scalars) {
  if (history_ && !history_->add(line)) {
    history_.reset();
    if (observer_.said)
      observer_.said(fmt::format("{} cannot be written: the history ends here",
                                 (directory_ / kHistoryFile).string()));
  }
  if (events_ && !events_->scalars(step, scalars)) {
    if (observer_.said)
      observer_.said(
          fmt::format("{} cannot be written: events end here", events_->path().string()));
    events_.reset();
  }
}

void RunRecords::stepped(const StepReport& r) {
  if (!history_ && !events_) return;
  std::vector<Scalar> scalars{{"train/loss", r.loss},
                              {"train/lr", r.lr},
                              {"train/grad_norm", r.grad_norm},
                              {"speed/tokens_per_s", r.tokens_per_s},
                              {"speed/step_seconds", r.seconds},
                              {"memory/arena", static_cast<double>(r.allocated_bytes)},
                              {"memory/context", static_cast<double>(r.context_bytes)},
                              {"memory/process", static_cast<double>(r.process_bytes)}};
  scalars.insert(scalars.end(), memory_.begin(), memory_.end());
  write(history_json(r), r.step, scalars);
}

void RunRecords::evaluated(int64_t step, double loss) {
  write(eval_json(step, loss), step, std::vector<Scalar>{{"eval/loss", loss}});
}

void RunRecords::go_back_to(int64_t step) {
  if (history_) history_->go_on_from(directory_ / kHistoryFile, step);
}

}  // namespace snug
