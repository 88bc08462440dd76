// `snug report`: a page of HTML about a plan, a run or a snapshot, or about two of them.
#include "snug/report.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/staged_file.h"
#include "base/text.h"
#include "cost/step_cost.h"
#include "page/page.h"
#include "page/plan_subject.h"
#include "train/run_directory.h"
#include "train/run_history.h"
#include "verbs/here.h"
#include "verbs/plan.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

Json plan_part(const Options& asked) {
  Options options = asked;
  options.explain = true;  // what else was considered is a table of the page
  const Resolved run = resolve_here(options);
  const PlannedRun planned = run.recipe.mesh.pp > 1 ? plan_stages(run) : plan_run(run);
  const PlanFacts facts = facts_of(planned, Advise::always);
  return plan_subject({planned.plan.module, planned.plan.memory, facts,
                       predicted_spans(planned.plan.module, planned.run.cost_model),
                       command_line("plan", asked)});
}

// "runs/first" -> "first", "snapshot.pickle" -> "snapshot"
std::string stem_of(const ReportSubject& subject) {
  fs::path path = subject.what;
  if (!path.has_filename()) path = path.parent_path();
  const bool is_file = kind_of_subject(subject.what) == SubjectKind::snapshot ||
                       path.extension() == ".toml" || path.extension() == ".json";
  return is_file ? path.stem().string() : path.filename().string();
}

std::string page_name(const ReportOptions& options) {
  if (!options.page.empty()) return options.page;
  std::vector<std::string> stems;
  for (const ReportSubject& subject : options.subjects) stems.push_back(stem_of(subject));
  return join(stems, "-against-") + ".html";
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
  std::error_code ignored;
  if (!options.overwrite && fs::exists(path, ignored))
    throw usage_error("{} exists", path.string())
        .hint("--overwrite replaces it when the new one is complete, -o names another");
  PageReport out{.page = path.string()};
  std::vector<Json> subjects;
  std::vector<std::string> titles;
  for (const ReportSubject& subject : options.subjects) {
    if (doing) doing("planning " + subject.what);
    subjects.push_back(plan_part(subject.options));
    out.answers.push_back(answer_text(subjects.back()));
    titles.push_back(subjects.back()["title"]);
  }
  const std::string html = page_html(join(titles, " against "), std::move(subjects));
  write_file_atomically(path, html);
  out.bytes = std::ssize(html);
  return out;
}

}  // namespace snug
