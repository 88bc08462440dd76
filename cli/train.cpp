// snug train MODEL: the plan, a line per step (on a terminal one line that shows where it is), and
// where the model went.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "arguments.h"
#include "base/log.h"
#include "deepspeed_file.h"
#include "report/train_report.h"
#include "snug/ranks.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {
namespace {

std::atomic<bool> stop_requested{false};

// The first Ctrl-C finishes the step and saves; the second ends the program at once, as everywhere
// else. Only calls that are safe in a signal handler.
extern "C" void on_interrupt(int) {
  constexpr std::string_view kSaid = "\nstopping after this step; again to stop now\n";
  const int kept = errno;
  // Before a word is said: another thread may get the second one while this one writes.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kSaid.data(), kSaid.size());
  stop_requested = true;
  errno = kept;
}

class TrainView {
 public:
  explicit TrainView(const Options& options) : options_(options) {}

  TrainObserver observer() {
    return {.planned = [](const PlanReport& report) { log_text(report.table); },
            .said = [](const std::string& line) { log_line(line); },
            .doing = [](const std::string& what) { show_status(what + " ..."); },
            .started = [] { listen_for_interrupts(); },
            .stepped = [this](const StepReport& report) { stepped(report); },
            .evaluated = [this](int64_t step, double loss) { evaluated(step, loss); },
            .stop = &stop_requested};
  }

 private:
  // Before the first step there is nothing to save: Ctrl-C ends the program.
  static void listen_for_interrupts() {
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
  }

  // A terminal shows the status line instead, but for what a person must know.
  bool prints(const StepReport& report) const {
    if (options_.json) return true;
    if (options_.log_every > 0)
      return report.step % options_.log_every == 0 || report.step == report.steps;
    return !on_terminal_ || report.skipped || report.step == report.steps;
  }

  void stepped(const StepReport& report) {
    if (prints(report)) {
      print("{}\n", options_.json ? step_json(report) : step_line(report, options_));
      flush_results();
    }
    if (report.peak_bytes != said_bytes_) log_line(memory_line(report));
    said_bytes_ = report.peak_bytes;
    if (report.step < report.steps) show_status(status_line(report));
  }

  void evaluated(int64_t step, double loss) const {
    print("{}\n", options_.json ? eval_json(step, loss) : eval_line(step, loss));
    flush_results();
  }

  const Options& options_;
  const bool on_terminal_ = stdout_is_terminal() && stderr_is_terminal();
  int64_t said_bytes_ = -1;
};

}  // namespace

int train_verb(const std::vector<std::string>& arguments) {
  CLI::App app("trains inside the plan, and saves a model that transformers opens", "snug train");
  Options options;
  add_options(app, options, Verbs::train);
  add_deepspeed(app);
  app.get_option("--model")->required(false);  // a run that is resumed has its own
  if (!parse(app, arguments)) return 0;
  if (options.resume.empty()) require_model(app, options);
  options.given = names_given(app);
  const RankRole role = rank_role(options);
  if (role.launches) {
    use_deepspeed(app, options, Quietly::yes);  // rank 0 says it
    return launch_ranks(options, "train", arguments);
  }
  if (!role.prints) {
    silence_log();
    silence_results();
  }
  use_deepspeed(app, options);

  const auto start = std::chrono::steady_clock::now();
  TrainView view(options);
  const TrainReport report = train(options, view.observer());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (const std::string summary = train_summary(report, taken.count()); !summary.empty())
    log_text(summary);
  if (report.prediction)
    print("{}\n", options.json ? report.prediction->json : "\n" + report.prediction->table);
  if (report.profile) print_profile(*report.profile, options.json);
  return 0;
}

}  // namespace snug::cli
