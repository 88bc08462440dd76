// snug fit MODEL --of batch|seq|model: the largest for a budget or a GPU.
#include "snug/fit.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "verbs.h"

namespace snug::cli {
namespace {

// Says what is tried, once that has taken longer than a second.
class Progress {
 public:
  ~Progress() { clear(); }
  void trying(const std::string& what) {
    if (!stderr_is_terminal() || Clock::now() - start_ < std::chrono::seconds(1)) return;
    clear();
    fmt::print(stderr, "trying {}", what);
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  void clear() {
    if (shown_) fmt::print(stderr, "\r\033[K");
    shown_ = false;
  }
  Clock::time_point start_ = Clock::now();
  bool shown_ = false;
};

FitReport fit_with_progress(const Options& options, const std::string& of) {
  Progress progress;
  return fit(options, of, [&](const std::string& what) { progress.trying(what); });
}

}  // namespace

int fit_verb(const std::vector<std::string>& arguments) {
  CLI::App app("the largest batch, sequence or model for a budget or a GPU", "snug fit");
  Options options;
  std::string of = "batch";
  add_options(app, options, OptionUse::plan_and_train);
  app.add_option("--of", of, "batch | seq | model: what is to be as large as possible")
      ->capture_default_str()
      ->take_last();
  if (!parse(app, arguments)) return 0;
  const FitReport report = fit_with_progress(options, of);
  fmt::print("{}", options.json ? report.json + "\n" : report.table);
  return static_cast<int>(ExitCode::ok);
}

}  // namespace snug::cli
