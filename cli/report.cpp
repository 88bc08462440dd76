// snug report WHAT -o page.html: a plan, a run or a snapshot as a page. --against: two side by
// side.
#include "snug/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "recipe_words.h"
#include "verbs.h"

namespace snug::cli {
namespace {

constexpr const char* kReport = "snug report";

// A plan has the options of the line; so has what a snapshot was made of, where a model is named.
ReportSubject subject_of(const std::string& word, const CLI::App& app, const Options& line) {
  ReportSubject subject{.what = word};
  if (kind_of_subject(word) != SubjectKind::plan) {
    subject.options = line;
    return subject;
  }
  subject.options = options_of(word, given_options(app), kReport);
  if (subject.options.model.empty()) throw usage_error("{} names no model", word);
  return subject;
}

// A run has had its options, and a snapshot without a model has no use for any.
void require_use(const Options& line, const std::vector<ReportSubject>& subjects) {
  const bool has_snapshot = std::ranges::any_of(subjects, [](const ReportSubject& subject) {
    return kind_of_subject(subject.what) == SubjectKind::snapshot;
  });
  if (!line.model.empty() && !has_snapshot)
    throw usage_error("--model has no use: {} is no snapshot", subjects[0].what);
  for (const ReportSubject& subject : subjects) {
    const SubjectKind kind = kind_of_subject(subject.what);
    if (kind == SubjectKind::plan || (kind == SubjectKind::snapshot && !line.model.empty())) return;
  }
  for (const std::string& name : line.given)
    if (name != "json")
      throw usage_error("--{} has no use: {} is no plan", name, subjects[0].what)
          .hint("options shape plans; with --model they say what a snapshot is of");
}

}  // namespace

int report_verb(const std::vector<std::string>& arguments) {
  CLI::App app("a plan, a run or a memory snapshot of PyTorch as one page of HTML", kReport);
  Options line;
  std::string what, against;
  ReportOptions options;
  app.add_option("what", what,
                 "a model (as for plan), the directory of a run (--out), or a snapshot.pickle");
  app.add_option("--against", against, "another of these: both side by side");
  app.add_option("-o,--page", options.page,
                 "the file to write (not given: named after what it shows)");
  app.add_flag("--overwrite", options.overwrite, "the file may exist, and is replaced");
  app.add_option("--model", line.model, "what a snapshot is of, to plan changes to it");
  add_run_options(app, line, Verbs::plan);
  if (!parse(app, arguments)) return 0;
  line.given = names_given(app);
  std::erase(line.given, "overwrite");  // the page's, not a run's
  if (what.empty())
    throw usage_error("{} needs a model, the directory of a run, or a snapshot", kReport)
        .hint(help_hint(app));
  for (const std::string& word : {what, against})
    if (!word.empty()) options.subjects.push_back(subject_of(word, app, line));
  require_use(line, options.subjects);
  const PageReport page =
      report(options, [](const std::string& doing) { show_status(printable(doing) + " ..."); });
  if (line.json) {
    print("{}\n",
          nlohmann::ordered_json{
              {"page", page.page}, {"bytes", page.bytes}, {"answers", page.answers}}
              .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  for (const std::string& answer : page.answers) print("{}\n", printable(answer));
  print("page: {} ({})\n", printable(page.page), format_bytes(page.bytes));
  return 0;
}

}  // namespace snug::cli
