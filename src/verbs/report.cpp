// `snug report`: a page of HTML about a plan, a run or a snapshot, or about two of them.
#include "snug/report.h"

#include <algorithm>
#include <filesystem>

#include "advice/plan_facts.h"
#include "advice/priced_plan.h"
#include "base/error.h"
#include "base/staged_file.h"
#include "base/text.h"
#include "checkpoint/output_directory.h"
#include "checkpoint/resume.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/run_history.h"
#include "cost/step_cost.h"
#include "machine/here.h"
#include "page/history.h"
#include "page/page.h"
#include "page/plan_subject.h"
#include "page/run_subject.h"
#include "page/snapshot_subject.h"
#include "search/meshes/mesh_search.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

struct PlannedPage {
  PlannedRun planned;
  PlanFacts facts;
  std::string command;

  PlanOnPage on_page() const {
    return {planned.plan.module, planned.plan.memory, facts,
            predicted_spans(planned.plan.module, planned.run.cost_model), command};
  }
};

// With `explain`: what else was considered is a table of the page.
PlannedPage planned_page(const Resolved& run, std::string command) {
  PlannedRun planned = plan_job(run);
  PlanFacts facts = facts_of(planned, planned.meshes.empty() ? Advise::always : Advise::never);
  return {.planned = std::move(planned), .facts = std::move(facts), .command = std::move(command)};
}

// As the run was told and chose, from its newest checkpoint.
std::optional<PlannedPage> plan_of_run(const fs::path& directory, RunOnPage& run) {
  const std::vector<fs::path> checkpoints = checkpoints_in(directory);
  if (checkpoints.empty()) {
    run.notes.emplace_back(
        "There is no checkpoint yet, which says what was planned: memory and lanes are missing.");
    return {};
  }
  try {
    const RunManifest manifest = read_manifest(checkpoints.back());
    run.steps = manifest.settled.steps;
    run.saved_step = manifest.step;
    run.device = manifest.device;
    Options options = manifest.settled;
    options.model = model_of_run(manifest, checkpoints.back());
    options.explain = true;
    Options asked = manifest.asked;
    asked.given = given_in(asked);
    std::erase_if(asked.given, [&](const std::string& name) {  // one rank is as good as none said
      return (name == "ranks" || name == "tp" || name == "pp") && asked.ranks <= 1;
    });
    // The memory free on a GPU now says nothing about the run's.
    const Resolved resolved = resolve(options);
    run.ranks = ranks_of(resolved.recipe.mesh, resolved.recipe.sharding);
    return planned_page(resolved, command_line("plan", asked));
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("The run cannot be replanned here: {}", error.what()));
    return {};
  }
}

Json run_part(const fs::path& directory) {
  RunOnPage run{.directory = directory, .going = is_held(directory)};
  std::error_code ignored;
  if (fs::exists(directory / kHistoryFile, ignored))
    run.history = read_history(directory / kHistoryFile);
  else if (checkpoints_in(directory).empty())
    throw bad_input("{} has neither {} nor a checkpoint", directory.string(), kHistoryFile);
  const std::optional<PlannedPage> planned = plan_of_run(directory, run);
  if (planned) run.plan.emplace(planned->on_page());
  return run_subject(run);
}

Json snapshot_part(const ReportSubject& subject) {
  const pytorch::Snapshot snapshot = pytorch::read_some_snapshot(subject.what);
  InspectFacts facts{
      .file = subject.what, .snapshot = &snapshot, .devices = pytorch::examine(snapshot)};
  if (!subject.options.model.empty()) facts.plan = priced_plan(subject.options);
  return snapshot_subject(facts, command_line("plan", subject.options));
}

Json part_of(const ReportSubject& subject) {
  switch (kind_of_subject(subject.what)) {
    case SubjectKind::run:
      return run_part(subject.what);
    case SubjectKind::snapshot:
      return snapshot_part(subject);
    case SubjectKind::plan:
      break;
  }
  Options options = subject.options;
  options.explain = true;
  const PlannedPage planned =
      planned_page(resolve_here(options), command_line("plan", subject.options));
  return plan_subject(planned.on_page());
}

// "runs/first" -> "first", "snapshot.pickle" -> "snapshot"
std::string stem_of(const ReportSubject& subject) {
  const fs::path name = name_of_path(subject.what);
  const bool is_file = kind_of_subject(subject.what) == SubjectKind::snapshot ||
                       name.extension() == ".toml" || name.extension() == ".json";
  return is_file ? name.stem().string() : name.string();
}

std::string page_name(const ReportOptions& options) {
  if (!options.page.empty()) return options.page;
  std::vector<std::string> stems;
  for (const ReportSubject& subject : options.subjects) stems.push_back(stem_of(subject));
  return join(stems, "-against-") + ".html";
}

// Is it the subject's file, or one of its directory's? Only pages are not.
bool belongs_to(const fs::path& page, const std::string& what) {
  std::error_code ignored;
  if (fs::equivalent(page, what, ignored)) return true;
  if (!fs::is_directory(what, ignored) || page.extension() == ".html") return false;
  for (fs::path at = fs::canonical(page, ignored); at.has_relative_path(); at = at.parent_path())
    if (fs::equivalent(at, what, ignored)) return true;
  return false;
}

void require_free(const fs::path& page, const ReportOptions& options) {
  std::error_code ignored;
  if (!fs::exists(page, ignored)) return;
  if (!fs::is_regular_file(page, ignored))
    throw usage_error("{} is no file that a page could replace", page.string());
  for (const ReportSubject& subject : options.subjects)
    if (belongs_to(page, subject.what))
      throw usage_error("{} belongs to {}, which the page is about", page.string(), subject.what)
          .hint("-o names another");
  if (!options.overwrite)
    throw usage_error("{} exists", page.string())
        .hint("--overwrite replaces it when the new one is complete, -o names another");
}

std::string answer_text(const Json& subject) {
  const Json& answer = subject["answer"];
  return fmt::format("{}: {}, {}", subject["title"].get<std::string>(),
                     answer["verdict"].get<std::string>(), answer["text"].get<std::string>());
}

}  // namespace

SubjectKind kind_of_subject(const std::string& what) {
  std::error_code ignored;
  const fs::path path = what;
  if (fs::is_directory(path, ignored)) {
    const bool is_run = fs::exists(path / kHistoryFile, ignored) ||
                        fs::exists(path / kLatestFile, ignored) || !checkpoints_in(path).empty();
    return is_run ? SubjectKind::run : SubjectKind::plan;
  }
  const std::string extension = path.extension().string();
  const bool is_pickle = extension == ".pickle" || extension == ".pkl";
  return is_pickle ? SubjectKind::snapshot : SubjectKind::plan;
}

PageReport report(const ReportOptions& options,
                  const std::function<void(const std::string&)>& doing) {
  const fs::path path = page_name(options);
  require_free(path, options);
  PageReport out{.page = path.string()};
  std::vector<Json> subjects;
  std::vector<std::string> titles;
  for (const ReportSubject& subject : options.subjects) {
    if (doing) doing("planning " + subject.what);
    subjects.push_back(part_of(subject));
    out.answers.push_back(answer_text(subjects.back()));
    titles.push_back(subjects.back()["title"]);
  }
  const std::string html = page_html(join(titles, " against "), std::move(subjects));
  write_file_atomically(path, html);
  out.bytes = std::ssize(html);
  return out;
}

}  // namespace snug
