// snug ladder MODEL: a row for each rung as soon as it is measured.
#include <optional>

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "report/ladder_report.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {
namespace {

class LadderView {
 public:
  explicit LadderView(const Options& options) : options_(options) {}

  LadderObserver observer() {
    return {.planned = [this](const LadderReport& report) { planned(report); },
            .started = [this](const Rung& rung) { started(rung); },
            .measured = [this](const Rung& rung) { measured(rung); }};
  }
  void finished(const LadderReport& report) const {
    print_text(options_.json ? ladder_json(report, options_) + "\n" : table_->foot());
  }

 private:
  void planned(const LadderReport& report) {
    total_ = report.rungs.size();
    table_.emplace(report, options_);
    if (!options_.json) print_text(table_->head());
  }

  void started(const Rung& rung) {
    ++running_;
    const bool one_change = running_ > 1 && running_ < total_;
    show_status(fmt::format("[{}/{}] {}", running_, total_, one_change ? rung.change : rung.name));
  }

  void measured(const Rung& rung) {
    clear_status();
    if (!options_.json) print_text(table_->row(rung));
    flush_results();
    if (rung.skipped > 0) {
      log("{}: {} of {} skipped, their gradient norm was not finite", rung.name, rung.skipped,
          counted(options_.steps, "step"));
    }
  }

  const Options& options_;
  std::optional<LadderTable> table_;
  size_t total_ = 0;
  size_t running_ = 0;
};

void require_as_planned(const std::vector<Rung>& rungs) {
  for (const Rung& rung : rungs) {
    if (!rung.as_planned()) {
      throw internal_error("{} ({}): {} bytes were planned and {} measured", rung.name, rung.change,
                           format_exact(rung.planned_bytes), format_exact(*rung.measured_bytes));
    }
  }
}

}  // namespace

int ladder_verb(const std::vector<std::string>& arguments) {
  CLI::App app("what each memory technique saves and costs on this model", "snug ladder");
  Options options;
  options.steps = 10;
  add_options(app, options, Verbs::train);
  if (!parse(app, arguments)) return 0;
  LadderView view(options);
  const LadderReport report = ladder(options, view.observer());
  view.finished(report);
  require_as_planned(report.rungs);
  return 0;
}

}  // namespace snug::cli
