#include "page/run_subject.h"

#include <algorithm>

#include "base/units.h"
#include "page/history.h"
#include "page/lanes.h"
#include "page/span_file.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

std::string loss_text(const HistoryOnPage& history) {
  if (!history.first_loss || !history.last_loss) return "no finite loss";
  return fmt::format("loss {:.4f} → {:.4f}", *history.first_loss, *history.last_loss);
}

Json answer_of_run(const RunOnPage& run, const HistoryOnPage& history) {
  const bool done = run.steps > 0 && history.last_step >= run.steps;
  std::string verdict = "stopped";
  if (run.going) verdict = "still training";
  if (done && !run.going) verdict = "trained";
  const std::string of = run.steps > 0 ? fmt::format(" of {}", format_exact(run.steps)) : "";
  std::string text =
      fmt::format("step {}{}, {}", format_exact(history.last_step), of, loss_text(history));
  if (run.going && history.hours_left > 0)
    text += fmt::format("; {} left", format_seconds(3600 * history.hours_left));
  return {{"verdict", verdict}, {"tone", done && !run.going ? "good" : "plain"}, {"text", text}};
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

// In `profile`, or of the first of several ranks.
fs::path spans_in(const fs::path& directory) {
  std::error_code ignored;
  for (const char* place : {"profile/spans.jsonl", "profile/rank-0/spans.jsonl"})
    if (fs::is_regular_file(directory / place, ignored)) return directory / place;
  return {};
}

void add_measured(const fs::path& file, Json& subject, std::vector<std::string>& notes) {
  Texts texts;
  for (const Json& text : subject["texts"]) texts.index(text.get<std::string>());
  const auto layers = subject["layers"].get<std::vector<std::string>>();
  SpansOnPage spans = read_spans(file);
  if (spans.unreadable > 0)
    notes.push_back(fmt::format("{} of {} are no spans", counted(spans.unreadable, "line"),
                                file.filename().string()));
  if (spans.left_out > 0)
    notes.push_back(
        fmt::format("{} of the measured step are not drawn", counted(spans.left_out, "span")));
  if (!spans.measured.empty())
    subject["lanes"].push_back(lanes_json("measured", std::move(spans.measured), texts, layers));
  subject["texts"] = texts.all();
}

Json without_plan() {
  return {{"kind", "run"},          {"categories", Json::array()}, {"layers", Json::array()},
          {"axes", Json::array()},  {"spaces", Json::array()},     {"lanes", Json::array()},
          {"texts", Json::array()}, {"facts", Json::array()},      {"notes", Json::array()}};
}

}  // namespace

Json run_subject(const RunOnPage& run) {
  const HistoryOnPage history = read_history(run.directory / "history.jsonl");
  Json out = run.plan ? plan_subject(*run.plan) : without_plan();
  auto notes = out["notes"].get<std::vector<std::string>>();
  notes.insert(notes.begin(), run.notes.begin(), run.notes.end());
  if (run.going)
    notes.insert(notes.begin(),
                 "This run is still going: the page has what was there when it was written.");
  if (history.unreadable > 0)
    notes.push_back(counted(history.unreadable, "line") + " of history.jsonl are no steps");
  if (run.plan && history.allocated > 0 &&
      history.allocated != run.plan->memory.device().placement.arena_bytes)
    notes.push_back(
        fmt::format("The run had an arena of {} bytes, and its plan, made again here, has {}: this "
                    "build plans otherwise than the one that ran.",
                    format_exact(history.allocated),
                    format_exact(run.plan->memory.device().placement.arena_bytes)));
  Json facts = facts_of_run(run, history);
  for (const Json& fact : out["facts"]) facts.push_back(fact);
  const fs::path named = run.directory.has_filename() ? run.directory : run.directory.parent_path();
  out["kind"] = "run";
  out["name"] = named.filename().string();
  out["title"] = run.plan ? fmt::format("{}, {}", named.string(), out["title"].get<std::string>())
                          : named.string();
  out["answer"] = answer_of_run(run, history);
  out["facts"] = std::move(facts);
  out["history"] = history.json;
  out["history"]["steps"] = std::max(run.steps, history.last_step);
  if (const fs::path spans = spans_in(run.directory); !spans.empty())
    add_measured(spans, out, notes);
  out["notes"] = notes;
  return out;
}

}  // namespace snug
