// The verdict on a budget and the changes that were found, one to a line.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr size_t kFlagColumns = 40;
constexpr size_t kShown = 6;  // of a list; --json has them all
constexpr size_t kNotEnoughShown = 3;

std::string signed_bytes(int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + format_bytes(std::abs(bytes));
}

// Never "-0.0 %".
std::string percent_text(double part) {
  return fmt::format("{:+.1f} %", std::abs(part) < 0.0005 ? 0.0 : 100 * part);
}

std::string advice_row(const Advice& a) {
  const std::vector<std::string> flags = flag_lines(a.change, kFlagColumns);
  std::string out = fmt::format("  {:<{}} {:>11} {:>12} {:>10} {:>9}  {}\n", flags[0], kFlagColumns,
                                format_bytes(a.peak_bytes), signed_bytes(-a.saves_bytes),
                                a.step_ms ? step_text(*a.step_ms) : "", percent_text(a.slower),
                                name_of(a.effect));
  for (size_t i = 1; i < flags.size(); ++i) out += fmt::format("  {}\n", flags[i]);
  return out;
}

std::string advice_head(std::string_view title, const Paint& paint) {
  const std::string space(kFlagColumns + 2 - title.size(), ' ');
  return "\n" + paint.title(title) +
         paint.quiet(fmt::format("{} {:>11} {:>12} {:>10} {:>9}  {}\n", space, "peak", "bytes",
                                 "a step", "a token", "effect"));
}

template <typename Wanted>
std::string advice_list(std::string_view title, const PlanFacts& facts, const Paint& paint,
                        Wanted&& wanted, size_t most = kShown) {
  std::string rows;
  for (const Advice& a : facts.advice) {
    if (!wanted(a) || most == 0) continue;
    rows += advice_row(a);
    --most;
  }
  return rows.empty() ? "" : advice_head(title, paint) + rows;
}

std::string changes_to_what_fits(const PlanFacts& facts, const Paint& paint) {
  return advice_list("what would be faster", facts, paint, is_faster) +
         advice_list("what would be smaller", facts, paint, std::not_fn(is_faster));
}

bool is_enough(const Advice& a, const PlanFacts& facts) {
  return a.needs().fits_in(facts.limits());
}

bool something_fits(const PlanFacts& facts) {
  return std::ranges::any_of(facts.advice, [&](const Advice& a) { return is_enough(a, facts); });
}

// What no change of this device's plan can help.
std::string honest_limits(const MemoryBreakdown& memory, const PlanFacts& facts) {
  const int64_t room = *facts.arena_budget();
  const StateBytes state = state_of(memory);
  std::string out;
  if (state.bytes > room) {
    out += fmt::format("  {} alone take {} of {}\n", state.names, format_bytes(state.bytes),
                       format_bytes(room));
  }
  if (something_fits(facts)) return out;
  if (facts.ranks > 1)
    return out +
           "  a rank's part is too large for a device of this size: more ranks divide it "
           "(--zero 3, --mesh), and on a GPU --offload moves state to the host\n";
  const int64_t least = 2 * (memory.trainable_params + memory.frozen_params);
  if (least > room)
    out +=
        fmt::format("  its weights in 16 bits, with nothing else, take {}\n", format_bytes(least));
  const bool moved = arenas_of(memory).outside_device();
  return out + "  one device of this size cannot hold it" +
         (moved ? "\n" : "; on a GPU --offload moves state to the host\n");
}

std::string changes_that_fit(const PlanFacts& facts, const Paint& paint) {
  const auto enough = [&](const Advice& a) { return is_enough(a, facts); };
  return advice_list("what would fit", facts, paint, enough) +
         advice_list("what would not be enough", facts, paint, std::not_fn(enough),
                     kNotEnoughShown);
}

// Rows that are changes to a choice are applied to it, and what it pins is no longer left open.
std::string chosen_flags(const PlanFacts& facts, const Paint& paint) {
  if (facts.advice.empty() || facts.changed.empty()) return "";
  const auto allow = facts.recipe.find("allow");
  const bool allowed = allow != facts.recipe.end() && !typed_text(*allow).empty();
  constexpr std::string_view kTitle = "each with ";
  std::string out;
  for (const std::string& line : flag_lines(join(facts.changed, " "), 100 - kTitle.size()))
    out += fmt::format("{:<{}}{}\n", out.empty() ? kTitle : "", kTitle.size(), line);
  if (allowed) out += fmt::format("{:<{}}and without --allow\n", "", kTitle.size());
  return paint.quiet("\n" + out);
}

std::string budget_line(const MemoryBreakdown& memory, const PlanFacts& facts, int64_t left,
                        const Paint& paint) {
  const std::string word = fits(memory, facts) ? paint.good("fits") : paint.bad("does not fit");
  std::string out = fmt::format(
      "\n{}  budget {}{}: {} {} ({} bytes)\n", word, format_bytes(*facts.budget_bytes),
      facts.within_free_memory ? ", free on this GPU" : "", format_bytes(std::abs(left)),
      left >= 0 ? "left" : "too much", format_exact(std::abs(left)));
  if (facts.context_bytes > 0) {
    const int64_t tables = facts.page_table_bytes(arenas_of(memory));
    out += fmt::format("  {} of it are for the context (driver, libraries{})\n",
                       format_bytes(facts.context_bytes + tables),
                       tables == 0 ? "" : "; " + format_bytes(tables) + " to reach host memory");
  }
  return out;
}

// By the search, not by the user.
bool offload_was_chosen(const PlanFacts& facts) {
  return std::ranges::any_of(facts.changed, [](const std::string& flags) {
    return flags.find("--offload ") != std::string::npos;
  });
}

// Of host and disk, where they are used: "  host: 950.00 MiB (996,147,200 bytes); budget 64.00 GiB:
// 63.02 GiB left", or that the plan assumes them; and what the host holds outside its arena.
std::string other_spaces_text(const MemoryBreakdown& memory, const PlanFacts& facts,
                              const Paint& paint) {
  const SpaceBytes arenas = arenas_of(memory), left_over = facts.left_by(arenas);
  std::string out;
  for (const Space space : {Space::host, Space::disk}) {
    const int64_t bytes = arenas[space], left = left_over[space];
    if (bytes == 0) continue;
    std::string line = fmt::format("  {}: {} ({} bytes)", name_of(space), format_bytes(bytes),
                                   format_exact(bytes));
    if (const std::optional<int64_t> budget =
            space == Space::host ? facts.host_budget_bytes : facts.disk_budget_bytes) {
      line += fmt::format("; budget {}: {} {}", format_bytes(*budget), format_bytes(std::abs(left)),
                          left >= 0 ? "left" : "too much");
    } else {
      line += "; assumed to be there";
    }
    if (space == Space::disk && facts.needs_offload_dir())
      line += "; a run needs --offload-dir DIR";
    out += (left >= 0 ? line : paint.bad(line)) + "\n";
    if (space == Space::host && facts.host_context_bytes > 0) {
      out += fmt::format("    and {} for uploads, loading and saving\n",
                         format_bytes(facts.host_context_bytes));
    }
    if (const int64_t staging = facts.staging()[space]; staging > 0)
      out += fmt::format("    and {} of staging for checkpoints\n", format_bytes(staging));
    if (space == Space::host && left < 0 && facts.needs_offload_dir())
      out += offload_was_chosen(facts)
                 ? "    --offload-dir DIR lets a part of it live on disk\n"
                 : "    =disk after an item, with --offload-dir DIR, puts it on disk\n";
  }
  return out;
}

}  // namespace

std::string verdict_text(const MemoryBreakdown& memory, const PlanFacts& facts,
                         const Paint& paint) {
  const int64_t arena = memory.device().placement.arena_bytes;
  const std::string others = other_spaces_text(memory, facts, paint);
  if (!facts.budget_bytes) {
    const std::string word = fits(memory, facts) ? paint.title("needs") : paint.bad("does not fit");
    return fmt::format("\n{}  {} at the peak ({} bytes)\n", word, format_bytes(arena),
                       format_exact(arena)) +
           others;
  }
  const int64_t left = facts.left_by(arenas_of(memory))[Space::device];
  return budget_line(memory, facts, left, paint) + others +
         (left >= 0 ? "" : honest_limits(memory, facts));
}

std::string changes_text(const MemoryBreakdown& memory, const PlanFacts& facts,
                         const Paint& paint) {
  return (fits(memory, facts) ? changes_to_what_fits(facts, paint)
                              : changes_that_fit(facts, paint)) +
         (facts.budget_bytes ? chosen_flags(facts, paint) : "");
}

}  // namespace snug
