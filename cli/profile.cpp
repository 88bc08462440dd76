// snug profile MODEL: where the time and the memory of a step go, measured over a few steps.
#include "arguments.h"
#include "base/log.h"
#include "snug/ranks.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

void print_profile(const ProfileReport& report, bool json) {
  print("{}\n", json ? report.json : "\n" + report.table);
  flush_results();
  for (const std::string& file : report.files) log_line("profile: " + file);
}

int profile_verb(const std::vector<std::string>& arguments) {
  CLI::App app("where the time and the memory of a step go: every op on every lane",
               "snug profile");
  Options options;
  add_options(app, options, Verbs::train);
  if (!parse(app, arguments)) return 0;
  options.given = names_given(app);
  const RankRole role = rank_role(options);
  if (role.launches) return launch_ranks(options, "profile", arguments);
  if (!role.prints) {
    silence_log();
    silence_results();
  }
  const TrainObserver observer{
      .said = [](const std::string& line) { log_line(line); },
      .doing = [](const std::string& what) { show_status(what + " ..."); },
      .stepped =
          [](const StepReport& report) {
            show_status(fmt::format("step {} of {} ...", report.step + 1, report.steps));
          }};
  print_profile(profile(options, observer), options.json);
  return 0;
}

}  // namespace snug::cli
