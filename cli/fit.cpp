// snug fit MODEL --of batch|seq|model: the largest for a budget or a GPU.
#include "snug/fit.h"

#include <fmt/format.h>

#include <chrono>

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "deepspeed_file.h"
#include "verbs.h"

namespace snug::cli {
namespace {

// Says what is tried, once that has taken longer than a second.
FitReport fit_with_progress(const Options& options, const std::string& of) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  FitReport report = fit(options, of, [&](const std::string& what) {
    if (Clock::now() - start > std::chrono::seconds(1)) show_status("trying " + what);
  });
  clear_status();
  return report;
}

}  // namespace

int fit_verb(const std::vector<std::string>& arguments) {
  CLI::App app("the largest batch, sequence or model for a budget or a GPU", "snug fit");
  Options options;
  std::string of = "batch";
  add_options(app, options, Verbs::plan);
  add_deepspeed(app);
  app.add_option("--of", of, "batch | seq | model: what is to be as large as possible")
      ->capture_default_str()
      ->take_last();
  if (!parse(app, arguments)) return 0;
  options.given = names_given(app);
  use_deepspeed(app, options);
  const FitReport report = fit_with_progress(options, of);
  print("{}", options.json ? report.json + "\n" : report.table);
  return static_cast<int>(ExitCode::ok);
}

}  // namespace snug::cli
