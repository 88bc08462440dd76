#include "report/train_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"

namespace snug {
namespace {

std::string skip_note(const StepReport& r, const Options& options) {
  if (options.update_in_backward)
    return "(the norm is not finite: parameters with such a gradient are skipped)";
  if (r.loss_scale == 0) return "(skipped: the norm is not finite)";
  return fmt::format("(skipped: the norm is not finite; loss scale now {})", r.loss_scale);
}

}  // namespace

std::string step_line(const StepReport& r, const Options& options) {
  const std::string head = fmt::format("step {:>5}/{}  loss {:.4f}  ", r.step, r.steps, r.loss);
  if (r.skipped) return head + skip_note(r, options);
  return head + fmt::format("norm {:<8.3g} lr {:.2e}  {:>7} tok/s", r.grad_norm, r.lr,
                            format_count(r.tokens_per_s));
}

std::string step_json(const StepReport& r) {
  return nlohmann::json{
      {"step", r.step},
      {"loss", r.loss},
      {"grad_norm", r.grad_norm},
      {"lr", r.lr},
      {"tokens", r.tokens},
      {"tokens_per_s", r.tokens_per_s},
      {"planned_bytes", r.planned_bytes},
      {"peak_bytes", r.peak_bytes},
      {"loss_scale", r.loss_scale > 0 ? nlohmann::json(r.loss_scale) : nlohmann::json(nullptr)},
      {"skipped", r.skipped}}
      .dump();
}

std::string history_json(const StepReport& r) {
  const auto or_nothing = [](double value) { return value < 0 ? Json(nullptr) : Json(value); };
  return Json{{"step", r.step},
              {"loss", r.loss},
              {"lr", r.lr},
              {"grad_norm", r.grad_norm},
              {"tokens", r.tokens},
              {"tokens_per_s", r.tokens_per_s},
              {"samples_per_s", r.samples_per_s},
              {"seconds", r.seconds},
              {"hours_left", r.hours_left},
              {"allocated_bytes", r.allocated_bytes},
              {"peak_bytes", r.peak_bytes},
              {"context_bytes", r.context_bytes},
              {"process_bytes", r.process_bytes},
              {"utilisation", or_nothing(r.utilisation)},
              {"watts", or_nothing(r.watts)},
              {"clock_mhz", or_nothing(r.clock_mhz)},
              {"loss_scale", r.loss_scale > 0 ? Json(r.loss_scale) : Json(nullptr)},
              {"skipped", r.skipped}}
      .dump();
}

std::string eval_line(int64_t step, double loss) {
  return fmt::format("step {:>5}        held-out loss {:.4f}", step, loss);
}

std::string eval_json(int64_t step, double loss) {
  return nlohmann::json{{"step", step}, {"eval_loss", loss}}.dump();
}

std::string memory_line(const StepReport& r) {
  if (r.peak_bytes == r.planned_bytes)
    return fmt::format("memory: {} bytes, planned and measured", format_exact(r.planned_bytes));
  return fmt::format("memory: {} bytes planned, {} measured", format_exact(r.planned_bytes),
                     format_exact(r.peak_bytes));
}

std::string status_line(const StepReport& r) {
  constexpr int kWidth = 20;
  const auto filled = static_cast<int>(kWidth * r.step / r.steps);
  std::string bar;
  for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
  const int64_t used = r.allocated_bytes + r.context_bytes;
  const std::string memory =
      r.budget_bytes > 0 ? fmt::format("{} of {}", format_bytes(used), format_bytes(r.budget_bytes))
                         : format_bytes(used);
  return fmt::format("{} {:>3}%  step {}/{}  {} left  loss {:.4f}  {} tok/s  {}", bar,
                     100 * r.step / r.steps, r.step, r.steps, format_seconds(3600 * r.hours_left),
                     r.loss, format_count(r.tokens_per_s), memory);
}

std::string transfer_text(int64_t done, int64_t total, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  return fmt::format("{} of {}, {}/s", format_bytes(done), format_bytes(total),
                     format_bytes(static_cast<int64_t>(rate)));
}

std::string train_summary(const TrainReport& report, double seconds) {
  std::vector<std::string> lines;
  if (report.steps > 0) {
    lines.push_back(fmt::format("{} after {} in {}: loss {:.4f} -> {:.4f}",
                                report.stopped_early ? "stopped as asked" : "done",
                                counted(report.steps, "step"), format_seconds(seconds),
                                report.first_loss, report.last_loss));
  }
  if (report.last_eval > 0) {
    lines.push_back(
        fmt::format("held-out loss {:.4f} -> {:.4f}", report.first_eval, report.last_eval));
  }
  if (!report.out.empty())
    lines.push_back(fmt::format("model and configuration are in {}", report.out));
  return join(lines, "\n");
}

}  // namespace snug
