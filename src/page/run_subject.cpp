#include "page/run_subject.h"

#include <algorithm>

#include "base/units.h"
#include "page/lane_spans.h"
#include "page/rank_profiles.h"
#include "page/span_file.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

std::string loss_text(const HistoryOnPage& history) {
  if (!history.first_loss || !history.last_loss) return "no finite loss";
  std::string course = fmt::format("loss {:.4f} → {:.4f}", *history.first_loss, *history.last_loss);
  if (!history.not_finite_since) return course;
  return fmt::format("{}, not finite since step {}", course,
                     format_exact(*history.not_finite_since));
}

// "step 3 of 10, loss 5.5000 → 5.2500"
std::string progress_text(const RunOnPage& run) {
  const std::string of = run.steps > 0 ? fmt::format(" of {}", format_exact(run.steps)) : "";
  if (!run.history) return fmt::format("saved at step {}{}", format_exact(run.saved_step), of);
  if (run.history->json.is_null()) return "the run has done no step yet";
  return fmt::format("step {}{}, {}", format_exact(run.history->last_step), of,
                     loss_text(*run.history));
}

Json answer_of_run(const RunOnPage& run, const HistoryOnPage& history) {
  const int64_t step = run.history ? history.last_step : run.saved_step;
  const bool done = run.steps > 0 && step >= run.steps;
  std::string verdict = "stopped";
  if (run.going) verdict = "still training";
  if (done && !run.going) verdict = "trained";
  std::string text = progress_text(run);
  if (run.going && history.hours_left > 0)
    text += fmt::format("; {} left", format_seconds(3600 * history.hours_left));
  const bool good = done && !run.going && !history.not_finite_since;
  return {{"verdict", verdict}, {"tone", good ? "good" : "plain"}, {"text", text}};
}

Json facts_of_run(const RunOnPage& run, const HistoryOnPage& history) {
  Json out = Json::array();
  const auto add = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) out.push_back({name, text});
  };
  add("directory", run.directory.string());
  add("ran on", run.device);
  if (history.tokens_per_s > 0)
    add("measured", format_rate(history.tokens_per_s) + " tokens/s, median of the last steps");
  if (history.first_eval && history.last_eval)
    add("held out", fmt::format("loss {:.4f} → {:.4f}", *history.first_eval, *history.last_eval));
  if (history.peak > 0)
    add("peak seen", fmt::format("{} of {} bytes of the arena", format_exact(history.peak),
                                 format_exact(history.allocated)));
  if (history.context > 0) add("context seen", format_bytes(history.context));
  return out;
}

// In `profile`, or of the only rank that has one.
fs::path spans_in(const fs::path& directory) {
  std::error_code ignored;
  for (const char* place : {"profile/spans.jsonl", "profile/rank-0/spans.jsonl"})
    if (fs::is_regular_file(directory / place, ignored)) return directory / place;
  return {};
}

// Its texts, to which more are added.
Texts texts_of(const Json& subject) {
  Texts texts;
  for (const Json& text : subject["texts"]) texts.index(text.get<std::string>());
  return texts;
}

// In the place of a plan's lanes: each rank has those that were predicted for it, too.
bool add_ranks(const RunOnPage& run, Json& subject, std::vector<std::string>& notes) {
  Texts texts = texts_of(subject);
  const auto layers = subject["layers"].get<std::vector<std::string>>();
  RanksOnPage ranks = read_ranks(run.directory / "profile", texts, layers, run.ranks);
  if (ranks.json.is_null()) return false;
  notes.insert(notes.end(), ranks.notes.begin(), ranks.notes.end());
  ranks.json["categories"] = Json::array();
  for (int c = 0; c < kCategories; ++c)
    ranks.json["categories"].push_back(name_of(static_cast<Category>(c)));
  subject["ranks"] = std::move(ranks.json);
  subject["lanes"] = Json::array();
  subject["texts"] = texts.all();
  return true;
}

void add_measured(const fs::path& file, Json& subject, std::vector<std::string>& notes) {
  Texts texts = texts_of(subject);
  const auto layers = subject["layers"].get<std::vector<std::string>>();
  SpansOnPage spans = read_spans(file);
  if (spans.unreadable > 0)
    notes.push_back(fmt::format("{} of {} {}", counted(spans.unreadable, "line"),
                                file.filename().string(),
                                spans.unreadable == 1 ? "is no span" : "are no spans"));
  if (spans.left_out > 0)
    notes.push_back(fmt::format("{} of the measured step {} not drawn",
                                counted(spans.left_out, "span"),
                                spans.left_out == 1 ? "is" : "are"));
  if (!spans.measured.empty())
    subject["lanes"].push_back(lanes_json("measured", std::move(spans.measured), texts, layers));
  subject["texts"] = texts.all();
}

Json without_plan() {
  return {{"kind", "run"},          {"categories", Json::array()}, {"layers", Json::array()},
          {"axes", Json::array()},  {"spaces", Json::array()},     {"lanes", Json::array()},
          {"texts", Json::array()}, {"facts", Json::array()},      {"notes", Json::array()}};
}

void add_notes_of_history(const HistoryOnPage& history, std::vector<std::string>& notes) {
  if (history.unreadable > 0)
    notes.push_back(fmt::format("{} of history.jsonl {}", counted(history.unreadable, "line"),
                                history.unreadable == 1 ? "is no step" : "are no steps"));
  if (history.json.is_null()) return;
  const int64_t shown = std::ssize(history.json["evals"]);
  if (shown < history.evaluations)
    notes.push_back(fmt::format("{} are drawn by {} points",
                                counted(history.evaluations, "evaluation"), format_exact(shown)));
}

// What all ranks measured, or the first against a plan of its stage alone.
void add_what_was_measured(const RunOnPage& run, const HistoryOnPage& history, Json& out,
                           std::vector<std::string>& notes) {
  const bool has_ranks = add_ranks(run, out, notes);
  const fs::path spans = has_ranks ? "" : spans_in(run.directory);
  if (run.plan && run.plan->facts.stage != 0) {
    if (history.allocated > 0 || !spans.empty())
      notes.push_back(fmt::format(
          "The plan is that of stage {}, which needs most; {} the first stage's{}.",
          run.plan->facts.stage + 1, spans.empty() ? "the history is" : "history and profile are",
          spans.empty() ? "" : ": measured lanes are not shown"));
    return;
  }
  const int64_t planned = run.plan ? run.plan->memory.device().placement.arena_bytes : 0;
  if (run.plan && history.allocated > 0 && history.allocated != planned)
    notes.push_back(fmt::format(
        "The run had an arena of {} bytes, and this build's plan of it has {}: this build "
        "plans otherwise than the one that ran.",
        format_exact(history.allocated), format_exact(planned)));
  if (!spans.empty()) add_measured(spans, out, notes);
}

// As it was typed, but "." is called by its name.
std::string title_of(const fs::path& directory) {
  const fs::path typed = directory.has_filename() ? directory : directory.parent_path();
  const bool is_dots = typed.filename() == "." || typed.filename() == "..";
  return is_dots ? name_of_path(directory) : typed.string();
}

}  // namespace

std::string name_of_path(const fs::path& path) {
  std::error_code ignored;
  fs::path whole = fs::absolute(path, ignored).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename().string();
}

Json run_subject(const RunOnPage& run) {
  const HistoryOnPage history = run.history.value_or(HistoryOnPage{});
  Json out = run.plan ? plan_subject(*run.plan) : without_plan();
  auto notes = out["notes"].get<std::vector<std::string>>();
  notes.insert(notes.begin(), run.notes.begin(), run.notes.end());
  if (run.going)
    notes.insert(notes.begin(),
                 "This run is still going: the page has what was there when it was written.");
  if (!run.history) notes.emplace_back("There is no history.jsonl: its steps are missing.");
  add_notes_of_history(history, notes);
  Json facts = facts_of_run(run, history);
  for (const Json& fact : out["facts"]) facts.push_back(fact);
  out["kind"] = "run";
  out["name"] = name_of_path(run.directory);
  out["title"] =
      run.plan ? fmt::format("{}, {}", title_of(run.directory), out["title"].get<std::string>())
               : title_of(run.directory);
  out["answer"] = answer_of_run(run, history);
  out["facts"] = std::move(facts);
  if (!history.json.is_null()) {
    out["history"] = history.json;
    out["history"]["steps"] = std::max(run.steps, history.last_step);
  }
  add_what_was_measured(run, history, out, notes);
  out["notes"] = notes;
  return out;
}

}  // namespace snug
