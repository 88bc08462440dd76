// snug checkpoint DIR: what a run has saved; whether it is whole; the model in it.
#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "report/checkpoint_report.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int checkpoint_verb(const std::vector<std::string>& arguments) {
  CLI::App app("what a run has saved: whether it is whole, and the model in it", "snug checkpoint");
  std::string path, directory;
  std::vector<std::string> pair;
  bool verify = false, json = false;
  app.add_option("directory", path, "the --out directory of a run, or one of its step-... folders");
  app.add_flag("--verify", verify, "read every byte and compare checksums");
  app.add_option("--export", directory,
                 "write the checkpoint's model as a directory that transformers opens; the latest "
                 "one's where DIR is a run");
  app.add_option("--diff", pair, "two checkpoints: what differs")->expected(2);
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  if (!pair.empty()) {
    for (const std::string& line : diff_checkpoints(pair[0], pair[1])) print("{}\n", line);
    return 0;
  }
  if (path.empty())
    throw usage_error("snug checkpoint needs the directory of a run").hint(help_hint(app));
  if (!directory.empty()) {
    export_checkpoint(path, directory);
    log_line(fmt::format("the model is in {}", directory));
    return 0;
  }
  const std::vector<CheckpointLine> lines =
      checkpoints(path, verify, [](const std::string& what) { show_status(what + " ..."); });
  print_text(json ? checkpoints_json(lines) + "\n" : checkpoints_table(lines));
  const bool whole =
      std::ranges::all_of(lines, [](const auto& line) { return line.wrong.empty(); });
  return static_cast<int>(whole ? ExitCode::ok : ExitCode::bad_input);
}

}  // namespace snug::cli
