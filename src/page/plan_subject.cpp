#include "page/plan_subject.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/text.h"
#include "base/units.h"
#include "page/lane_spans.h"
#include "page/space_map.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

// As a shell takes it for one word.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string join_words(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + " " + b;
}

// "--batch 8", and a flag by its name alone.
std::string flag_text(const Option& option, const Options& options) {
  const std::string text = option.text(options);
  if (option.kind == ValueKind::flag) return text == "true" ? fmt::format(" --{}", option.key) : "";
  return fmt::format(" --{} {}", option.key, shell_word(text));
}

Json answer_of(const MemoryBreakdown& memory, const PlanFacts& facts) {
  const int64_t arena = memory.device().placement.arena_bytes;
  const bool enough = fits(memory, facts);
  if (!facts.budget_bytes && enough)
    return {{"verdict", "needs " + format_bytes(arena)},
            {"tone", "plain"},
            {"text", format_exact(arena) + " bytes at the peak; there is no budget"}};
  const SpaceBytes left = facts.left_by(arenas_of(memory));
  for (const Space space : kAllSpaces) {
    if (left[space] >= 0) continue;
    return {{"verdict", "does not fit"},
            {"tone", "bad"},
            {"text", fmt::format("{} too much ({} bytes) {}", format_bytes(-left[space]),
                                 format_exact(-left[space]),
                                 space == Space::device ? "on the device"
                                 : space == Space::host ? "in host memory"
                                                        : "on disk")}};
  }
  return {
      {"verdict", "fits"},
      {"tone", "good"},
      {"text", fmt::format("{} of {} are left ({} bytes)", format_bytes(left[Space::device]),
                           format_bytes(*facts.budget_bytes), format_exact(left[Space::device]))}};
}

std::string peak_text(const Peak& peak) {
  const std::string layer = peak.layer == kNoLayer ? "" : fmt::format(", layer {}", peak.layer);
  return fmt::format("in {}{}, at {} of {}", name_of(peak.phase), layer, peak.op, peak.program);
}

// Those of the terminal's report, in a few words each.
Json facts_of_plan(const MemoryBreakdown& memory, const PlanFacts& facts) {
  Json out = Json::array();
  const auto add = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) out.push_back({name, text});
  };
  const SpaceBytes arenas = arenas_of(memory);
  for (const Space space : kAllSpaces) {
    if (arenas[space] > 0)
      add(name_of(space),
          fmt::format("{} ({} bytes)", format_bytes(arenas[space]), format_exact(arenas[space])));
  }
  if (facts.context_bytes > 0)
    add("context", format_bytes(facts.context_bytes + facts.page_table_bytes(arenas)) +
                       " for driver and libraries, outside the arena");
  if (facts.step_ms)
    add("speed", fmt::format("{} a step, {} tokens/s, modelled", step_text(*facts.step_ms),
                             format_rate(facts.tokens_per_s().value_or(0))));
  add("rests on", facts.rests_on);
  if (facts.attention) add("attention", attention_text(*facts.attention));
  add("chosen", join(facts.changed, " "));
  if (facts.chosen) add("recompute", facts.chosen->policy);
  if (!memory.device().peak.program.empty()) add("peak", peak_text(memory.device().peak));
  add("a step", fmt::format("{} tokens: batch {} x {}{}", format_exact(facts.tokens_per_step()),
                            facts.batch, facts.seq,
                            facts.accum > 1 ? fmt::format(", {} micro-batches", facts.accum) : ""));
  if (facts.stages.size() > 1)
    add("pipeline", fmt::format("stage {} of {} is shown: the one that needs most; {:.1f} % bubble",
                                facts.stage + 1, facts.stages.size(), 100 * facts.bubble));
  return out;
}

Json changes_of_plan(const PlanOnPage& plan) {
  const bool enough = fits(plan.memory, plan.facts);
  std::vector<Advice> all = plan.facts.advice;
  std::ranges::stable_sort(all, {}, &Advice::slower);  // what costs least first
  Json rows = Json::array();
  for (const Advice& a : all) {
    const std::string flags = plan.facts.budget_bytes ? join_words(a.pins, a.change) : a.change;
    rows.push_back({{"change", a.change},
                    {"command", join_words(plan.command, flags)},
                    {"peak_bytes", a.peak_bytes},
                    {"saves_bytes", a.saves_bytes},
                    {"step_ms", or_null(a.step_ms)},
                    {"time_ratio", 1 + a.slower},
                    {"numbers", name_of(a.effect)},
                    {"fits", plan.facts.budget_bytes ? Json(a.needs().fits_in(plan.facts.limits()))
                                                     : Json(nullptr)}});
  }
  return {{"title", enough ? "What would be faster or smaller" : "What would make it fit"},
          {"rows", rows}};
}

Json runners_up_of(const PlanFacts& facts) {
  Json out = Json::array();
  for (const RunnerUp& r : facts.runners_up) {
    out.push_back({{"change", r.name.empty() ? "as asked" : r.name},
                   {"peak_bytes", r.bytes},
                   {"step_ms", r.seconds > 0 ? Json(r.seconds * 1e3) : Json(nullptr)},
                   {"numbers", name_of(r.effect)},
                   {"why", r.why}});
  }
  return out;
}

Json layers_of(const MemoryBreakdown& memory) {
  Json out = Json::array();
  for (const LayerBreakdown& l : memory.layers)
    out.push_back({l.layer, l.params, l.grads, l.optimizer, l.kept, l.at_peak});
  return out;
}

Json predicted_lanes(const PlanOnPage& plan, Texts& texts) {
  std::vector<ShownSpan> shown;
  shown.reserve(plan.predicted.size());
  for (const Span& span : plan.predicted) {
    const Op& op =
        plan.module.programs[static_cast<size_t>(span.program)].ops[static_cast<size_t>(span.op)];
    shown.push_back({.lane = span.lane,
                     .begin = span.begin,
                     .end = span.end,
                     .name = op.name,
                     .kind = std::string(op.def->kind),
                     .layer = op.layer,
                     .ops = span.ops});
  }
  return lanes_json("predicted", std::move(shown), texts, plan.module.layers);
}

std::vector<std::string> notes_of(const Axis& axis, const Json& spaces) {
  std::vector<std::string> notes;
  if (axis.stride() > 1)
    notes.push_back(fmt::format("{} ops are one instant of the drawings: the one with most bytes",
                                axis.stride()));
  for (const Json& space : spaces) {
    const Json& values = space["values"];
    const int64_t all = values["all"], shown = std::ssize(values["name"]);
    if (shown < all)
      notes.push_back(fmt::format("{}: the {} largest of {} values are drawn; the others have {}",
                                  space["name"].get<std::string>(), format_exact(shown),
                                  format_exact(all),
                                  format_bytes(values["left_out_bytes"].get<int64_t>())));
  }
  return notes;
}

}  // namespace

std::string command_line(std::string_view verb, const Options& options) {
  std::string out = fmt::format("snug {} {}", verb, shell_word(options.model));
  for (const Option& option : all_options()) {
    const bool shown =
        option.is_for(Verbs::plan) && option.key != "json" && option.key != "explain";
    if (shown && is_given(options, option.key)) out += flag_text(option, options);
  }
  return out;
}

Json plan_subject(const PlanOnPage& plan) {
  const PlanFacts& facts = plan.facts;
  Texts texts;
  const Axis axis(plan.module, plan.memory);
  Json axis_json = axis.json(texts, plan.predicted);
  Json spaces = Json::array();
  const SpaceBytes arenas = arenas_of(plan.memory), left = facts.left_by(arenas);
  for (const Space space : kAllSpaces) {
    if (arenas[space] == 0) continue;
    const bool limited = facts.limits()[space] < kUnlimited;
    spaces.push_back(space_json(plan.module, plan.memory[space], space, axis,
                                limited ? std::optional(arenas[space] + left[space]) : std::nullopt,
                                texts));
  }
  Json categories = Json::array();
  for (size_t c = 0; c < kCategories; ++c) categories.push_back(name_of(static_cast<Category>(c)));
  Json lanes = Json::array({predicted_lanes(plan, texts)});
  Json out = {{"kind", "plan"},
              {"name", facts.model},
              {"title", facts.device.empty() ? facts.model : facts.model + " on " + facts.device},
              {"command", plan.command},
              {"answer", answer_of(plan.memory, facts)},
              {"facts", facts_of_plan(plan.memory, facts)},
              {"notes", notes_of(axis, spaces)},
              {"recipe", facts.recipe},
              {"categories", categories},
              {"layers", plan.module.layers},
              {"axes", Json::array({axis_json})},
              {"spaces", spaces},
              {"lanes", lanes},
              {"layer_table", layers_of(plan.memory)},
              {"advice", changes_of_plan(plan)},
              {"runners_up", runners_up_of(facts)}};
  out["texts"] = texts.all();
  return out;
}

}  // namespace snug
