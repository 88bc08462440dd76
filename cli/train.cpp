// snug train MODEL: prints the plan, then a line per step (and a progress bar on a terminal), then
// where the model went.
#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "base/log.h"
#include "base/units.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {
namespace {

std::atomic<bool> stop_requested{false};

// The first Ctrl-C finishes the step and saves; the second ends the program at once, as everywhere
// else.
extern "C" void on_interrupt(int signal_number) {
  stop_requested = true;
  std::signal(signal_number, SIG_DFL);
}

class View {
 public:
  View(const Options& options, bool terminal) : options_(options), terminal_(terminal) {}

  void planned(const PlanReport& report) const { fmt::print(stderr, "{}\n", report.table); }

  void said(const std::string& line) {
    clear_bar();
    log_line(line);
  }

  void stepped(const StepReport& r) {
    clear_bar();
    if (options_.json) {
      const nlohmann::json line{
          {"step", r.step},
          {"loss", r.loss},
          {"grad_norm", r.grad_norm},
          {"lr", r.lr},
          {"tokens", r.tokens},
          {"tokens_per_s", r.tokens_per_s},
          {"planned_bytes", r.planned_bytes},
          {"peak_bytes", r.peak_bytes},
          {"loss_scale", r.loss_scale > 0 ? nlohmann::json(r.loss_scale) : nlohmann::json(nullptr)},
          {"skipped", r.skipped}};
      fmt::print("{}\n", line.dump());
    } else {
      fmt::print(
          "step {:>5}/{}  loss {:.4f}  norm {:<8.3g} lr {:.2e}  {:>7} tok/s  planned {}  measured "
          "{}{}\n",
          r.step, r.steps, r.loss, r.grad_norm, r.lr, format_count(r.tokens_per_s),
          format_exact(r.planned_bytes), format_exact(r.peak_bytes), skip_note(r));
    }
    std::fflush(stdout);
    draw_bar(r);
  }

  void evaluated(int64_t step, double loss) {
    clear_bar();
    if (options_.json) {
      fmt::print("{}\n", nlohmann::json{{"step", step}, {"eval_loss", loss}}.dump());
    } else {
      fmt::print("step {:>5}        held-out loss {:.4f}\n", step, loss);
    }
    std::fflush(stdout);
  }

  void clear_bar() {
    if (bar_drawn_) fmt::print(stderr, "\r\033[K");
    bar_drawn_ = false;
  }

 private:
  std::string skip_note(const StepReport& r) const {
    if (!r.skipped) return "";
    if (options_.update_in_backward)
      return "  (the norm is not finite: parameters with such a gradient are skipped)";
    if (r.loss_scale == 0) return "  (skipped: the norm is not finite)";
    return fmt::format("  (skipped: the norm is not finite; loss scale now {})", r.loss_scale);
  }

  void draw_bar(const StepReport& r) {
    seconds_ += r.seconds;
    if (!terminal_ || r.step == r.steps) return;
    constexpr int kWidth = 40;
    const auto filled = static_cast<int>(kWidth * r.step / r.steps);
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += i < filled ? "█" : "░";
    const double left =
        seconds_ / static_cast<double>(r.step) * static_cast<double>(r.steps - r.step);
    fmt::print(stderr, "{} {:>3}%  {} left", bar, 100 * r.step / r.steps, format_seconds(left));
    std::fflush(stderr);
    bar_drawn_ = true;
  }

  const Options& options_;
  bool terminal_;
  bool bar_drawn_ = false;
  double seconds_ = 0;
};

}  // namespace

int train_verb(const std::vector<std::string>& arguments) {
  CLI::App app("trains inside the plan, and saves a model that transformers opens", "snug train");
  Options options;
  add_options(app, options, OptionUse::train);
  if (!parse(app, arguments)) return 0;

  View view(options, stderr_is_terminal());
  TrainObserver observer;
  observer.planned = [&](const PlanReport& r) { view.planned(r); };
  observer.said = [&](const std::string& line) { view.said(line); };
  observer.stepped = [&](const StepReport& r) { view.stepped(r); };
  observer.evaluated = [&](int64_t step, double loss) { view.evaluated(step, loss); };
  observer.stop = &stop_requested;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);

  const TrainReport report = train(options, observer);
  view.clear_bar();
  if (report.steps > 0) {
    log("{} after {} step{}: loss {:.4f} -> {:.4f}",
        report.stopped_early ? "stopped as asked" : "done", report.steps,
        report.steps == 1 ? "" : "s", report.first_loss, report.last_loss);
  }
  if (report.last_eval > 0)
    log("held-out loss {:.4f} -> {:.4f}", report.first_eval, report.last_eval);
  if (!report.out.empty()) log("model and configuration are in {}", report.out);
  if (report.prediction)
    fmt::print("{}\n", options.json ? report.prediction->json : "\n" + report.prediction->table);
  return 0;
}

}  // namespace snug::cli
