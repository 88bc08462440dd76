// `snug fit`: the largest batch, sequence or model inside a budget.
#include <filesystem>

#include "advice/largest_runs.h"
#include "base/error.h"
#include "base/staged_file.h"
#include "machine/here.h"
#include "report/fit_report.h"
#include "search/meshes/mesh_search.h"
#include "settings/option_checks.h"

namespace snug {
namespace {

// Without a budget: the memory of the GPU that is here.
Options with_budget(Options o) {
  if (o.budget.given() || !o.gpu.empty()) return o;
  const auto free = free_budget(o);
  if (!free) {
    throw usage_error("snug fit needs --budget or --gpu: what is it to fit in?")
        .hint("e.g. --budget 24GiB, or --gpu rtx4090; where a GPU answers: what is free on it");
  }
  o.budget = {*free};
  return o;
}

// Saves the last of the levels as DIR/run.toml, for `snug train --config`.
void save(const Options& asked, const FoundLevel& level) {
  Options o = changed(asked, level.change);
  o.model = level.report.model;
  o.out.clear();
  o.allow = {};
  const PlannedRun planned = plan_job(resolve(o));
  const std::filesystem::path directory = asked.out;
  std::filesystem::create_directories(directory);
  write_file_atomically(directory / "config.json", planned.run.model.config_json());
  write_file_atomically(directory / "run.toml", to_toml(planned.run, planned.recompute));
}

}  // namespace

FitReport fit(const Options& options, const std::string& of, const Trying& trying) {
  require_word(of, "of", {"batch", "seq", "model"});
  const Options asked = with_budget(options);
  const Resolved run = resolve(asked);
  if (is_interleaved(asked) && leaves_mesh_open(run))
    throw usage_error(
        "fit with --pp-schedule {}: it takes micro-batches in multiples of the stages",
        print_setting(asked.pp_schedule))
        .hint("give --pp or --mesh, or leave --pp-schedule out");
  FitReport report{.of = of,
                   .device = device_text(run),
                   .budget_bytes = *run.budget + run.context,
                   .context_bytes = run.context,
                   .times_from = run.cost_model.origin()};
  const std::vector<FoundLevel> levels = largest_runs(asked, run, of, trying);
  for (const FoundLevel& level : levels) report.levels.push_back(level.report);
  if (!asked.out.empty()) save(asked, levels.back());
  report.table = fit_table(report, asked);
  report.json = fit_json(report, asked);
  return report;
}

}  // namespace snug
