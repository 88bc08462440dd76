#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/bar.h"
#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr int kBarColumns = 38;
constexpr size_t kLargestShown = 5;
constexpr std::array kState{Category::params, Category::master, Category::grads,
                            Category::optimizer};

std::string spaces(int columns) {
  return std::string(static_cast<size_t>(std::max(columns, 0)), ' ');
}

// Words after one another with " · " between, broken into lines that fit.
std::string flow(const std::vector<std::string>& words) {
  std::string out;
  size_t columns = 0;
  for (const std::string& word : words) {
    if (columns > 0 && columns + 3 + word.size() > kTableColumns) {
      out += "\n";
      columns = 0;
    }
    out += columns == 0 ? word : " · " + word;
    columns += word.size() + (columns == 0 ? 0 : 3);
  }
  return out + "\n";
}

bool in_headline(const std::string& option, const PlanFacts& facts) {
  // What the first line has said already, and what is no part of the step.
  constexpr std::array kLeftOut{"model", "device",       "gpu",   "ranks",  "batch",
                                "seq",   "global-batch", "accum", "explain"};
  if (std::ranges::count(kLeftOut, option) > 0) return false;
  return facts.headline.empty() || std::ranges::count(facts.headline, option) > 0;
}

// "gpt2 on cpu · 124.44 M parameters · batch 8 x 1024 · 8,192 tokens per step"
std::string first_line(const MemoryBreakdown& memory, const PlanFacts& facts, const Paint& paint) {
  const auto count = [](int64_t params) { return format_count(static_cast<double>(params)); };
  const int64_t here = memory.trainable_params + memory.frozen_params;
  std::string params = fmt::format("{} parameters", count(std::max(here, facts.model_params)));
  if (facts.model_params > here) params += fmt::format(" ({} on this stage)", count(here));
  if (memory.frozen_params > 0)
    params += fmt::format(" ({} trained)", count(memory.trainable_params));
  std::string tokens = fmt::format("{} tokens per step", format_exact(facts.tokens_per_step()));
  if (facts.accum > 1) tokens += fmt::format(" in {} micro-batches", facts.accum);
  const std::string on = facts.device.empty() ? "" : " on " + facts.device;
  std::string out = flow(
      {facts.model + on, params, fmt::format("batch {} x {}", facts.batch, facts.seq), tokens});
  return out.replace(0, facts.model.size(), paint.title(facts.model));
}

std::string header(const MemoryBreakdown& memory, const PlanFacts& facts, const Paint& paint) {
  const std::string out = first_line(memory, facts, paint);
  std::vector<std::string> words;
  for (const auto& [key, value] : facts.recipe.items()) {
    if (value.is_null() || !in_headline(key, facts)) continue;
    // The verdict says how many bytes that is.
    const bool to_the_budget = key == "recompute" && facts.budget_bytes;
    const std::string text = typed_text(value);
    words.push_back(key + " " + (to_the_budget && text.starts_with("auto:") ? "auto" : text));
  }
  return words.empty() ? out : out + paint.quiet(flow(words));
}

std::string byte_row(std::string_view name, const std::string& bar, int64_t bytes, double share) {
  return fmt::format("  {:<12} {} {:>19} {:>12} {:>7.1f} %\n", name, bar, format_exact(bytes),
                     format_bytes(bytes), share * 100);
}

// Where the bytes are at the peak instant: the rows add up to the arena.
std::string breakdown(const SpaceBreakdown& space, const Paint& paint) {
  const std::string_view title = "device memory at the peak";
  const int64_t arena = space.placement.arena_bytes;
  auto share = [&](int64_t bytes) {
    return arena == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(arena);
  };
  std::string out = fmt::format("\n{}{}{:>19} {:>12} {:>9}\n", paint.title(title),
                                spaces(16 + kBarColumns - static_cast<int>(title.size())), "bytes",
                                "size", "share");
  for (size_t c = 0; c < space.breakdown.size(); ++c) {
    const int64_t bytes = space.breakdown[c];
    if (bytes == 0) continue;
    out += byte_row(name_of(static_cast<Category>(c)),
                    paint.bar(c, bar_text(share(bytes), kBarColumns)), bytes, share(bytes));
  }
  out += byte_row("gaps", paint.bar(0, bar_text(share(space.gaps), kBarColumns)), space.gaps,
                  share(space.gaps));
  out += "  " + paint.quiet(rule(kTableColumns - 3)) + "\n";
  out += byte_row("arena", spaces(kBarColumns), arena, 1);
  return out;
}

std::string layer_name(int32_t layer) {
  return layer == kNoLayer ? "outside the layers" : fmt::format("layer {}", layer);
}

// "forward 1.56 T, backward 5.08 T": what is not zero.
template <typename Number>
std::string phases(const std::array<Number, kPhases>& sums, std::string (*text)(Number)) {
  std::vector<std::string> parts;
  for (size_t p = 0; p < sums.size(); ++p) {
    if (sums[p] > 0)
      parts.push_back(fmt::format("{} {}", name_of(static_cast<Phase>(p)), text(sums[p])));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "state  16.00 bytes per parameter: params 4.00, grads 4.00, optimizer 8.00"
std::string state_per_parameter(const MemoryBreakdown& memory) {
  const auto params = static_cast<double>(memory.trainable_params + memory.frozen_params);
  if (params == 0) return "";
  double sum = 0;
  std::vector<std::string> parts;
  for (Category c : kState) {
    const double each = static_cast<double>(memory.shared[static_cast<size_t>(c)]) / params;
    sum += each;
    if (each > 0) parts.push_back(fmt::format("{} {:.2f}", name_of(c), each));
  }
  return fact("state", fmt::format("{:.2f} bytes per parameter: {}", sum, fmt::join(parts, ", ")));
}

std::string facts_of_peak(const MemoryBreakdown& memory) {
  const SpaceBreakdown& device = memory.device();
  const PlacementStats& placed = device.placement;
  std::string out = "\n";
  if (!device.peak.program.empty()) {
    out += fact("peak", fmt::format("in {}, {}, at {} (op {} of {})", name_of(device.peak.phase),
                                    layer_name(device.peak.layer), device.peak.op,
                                    device.peak.op_index, device.peak.program));
    out += fact("", "each phase at most: " + phases(device.phase_peaks, &format_bytes));
  }
  const double whole = placed.max_live_bytes == 0 ? 1
                                                  : static_cast<double>(placed.arena_bytes) /
                                                        static_cast<double>(placed.max_live_bytes);
  out +=
      fact("packing", fmt::format("fragmentation {:.2f} %; transient values: {:.2f} % ({} in {})",
                                  100 * (whole - 1), 100 * (placed.ratio() - 1),
                                  format_bytes(placed.transient_max_live_bytes),
                                  format_bytes(placed.transient_arena_bytes)));
  out += state_per_parameter(memory);
  const std::string work = phases(memory.step_flops, &format_count);
  if (!work.empty()) out += fact("work", "operations per step: " + work);
  return out;
}

// What a step will take, and how that is known.
std::string speed(const PlanFacts& facts) {
  if (!facts.tokens_per_s()) return "";
  std::string out =
      fact("time", fmt::format("{} a step, {} tokens/s, modelled", step_text(*facts.step_ms),
                               format_rate(*facts.tokens_per_s())));
  if (!facts.rests_on.empty()) out += fact("", "rests on " + facts.rests_on);
  if (!facts.moves_rest_on.empty()) {
    for (const std::string& line :
         lines_of(split("moves by " + facts.moves_rest_on, ' '), kColumns - 9))
      out += fact("", line);
  }
  return out;
}

// A warning where attention does without tensor cores.
std::string kernels(const PlanFacts& facts, const Paint& paint) {
  if (!facts.attention) return "";
  const std::string text = "attention on " + attention_text(*facts.attention);
  std::string out;
  for (const std::string& line : lines_of(split(text, ' '), kColumns - 9))
    out += fact(out.empty() ? "kernels" : "", line);
  return facts.attention->by == Server::plain_tiles ? paint.bad(out) : out;
}

std::string largest(const SpaceBreakdown& space, const Paint& paint) {
  if (space.largest.empty()) return "";
  std::string out = "\n" + paint.title("largest at the peak") + "\n";
  for (size_t i = 0; i < std::min(kLargestShown, space.largest.size()); ++i) {
    const OwnedBytes& v = space.largest[i];
    out += fmt::format("  {:<38} {:<24} {:<12} {:>12}\n", without_end(v.name, 38),
                       without_end(v.type.text(), 24), name_of(v.category), format_bytes(v.bytes));
  }
  return out;
}

}  // namespace

std::string rule(int columns) {
  std::string line;
  for (int i = 0; i < columns; ++i) line += "─";
  return line;
}

std::string fact(std::string_view name, std::string_view text) {
  return fmt::format("{:<9}{}\n", name, text);
}

std::string step_text(double ms) {
  if (ms >= 60e3) return format_seconds(ms / 1e3);
  if (ms >= 1e3) return fmt::format("{:.2f} s", ms / 1e3);
  return ms >= 1 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.3f} ms", ms);
}

StateBytes state_of(const MemoryBreakdown& memory) {
  StateBytes state;
  std::vector<std::string> names;
  for (Category c : kState) {
    const int64_t bytes = memory.shared[static_cast<size_t>(c)];
    state.bytes += bytes;
    if (bytes > 0) names.emplace_back(name_of(c));
  }
  if (names.size() > 1) {
    const std::string last = names.back();
    names.pop_back();
    names.back() += " and " + last;
  }
  state.names = join(names, ", ");
  return state;
}

std::string attention_text(const AttentionFacts& a) {
  const std::string why = a.why.empty() ? "" : fmt::format(" ({})", a.why);
  const std::string share = fmt::format(", {:.0f} % of the step", 100 * a.share);
  if (a.by == Server::cudnn) return "cuDNN's kernels" + share;
  if (a.by == Server::tensor_cores) return "Snug's tensor-core kernels" + why + share;
  return fmt::format(
      "plain tiles{}{}: about {:.0f} times slower than cuDNN in bf16; {} would use tensor cores",
      why, share, a.times, a.instead);
}

namespace {

// "saves    every 20 steps, 8.63 GiB each: 4.6 s of disk during training, which waits for 0 ms".
std::string saves_text(const PlanFacts& facts) {
  if (!facts.saves) return "";
  const SaveFacts& s = *facts.saves;
  std::string out = fmt::format("saves    every {}, {} each: ", s.every, format_bytes(s.bytes));
  if (!s.overlapped)
    return out +
           fmt::format("{} of disk, for which training waits\n", format_seconds(s.disk_seconds));
  out += fmt::format("{} of disk during training, which waits for {}\n",
                     format_seconds(s.disk_seconds), format_seconds(s.waits_seconds));
  if (s.staging > 0)
    out += fmt::format("         {} of staging in host memory\n", format_bytes(s.staging));
  return out;
}

}  // namespace

std::string summary_text(const MemoryBreakdown& memory, const PlanFacts& facts,
                         const Paint& paint) {
  return header(memory, facts, paint) + verdict_text(memory, facts, paint) + speed(facts);
}

std::string render_plan(const MemoryBreakdown& memory, const PlanFacts& facts, bool colour) {
  const Paint paint{colour};
  // What was asked first: does it fit, how fast is it, what was chosen.
  std::string out = summary_text(memory, facts, paint);
  out += kernels(facts, paint);
  out += choice_text(facts);
  out +=
      leaves_device(memory, facts) ? spaces_text(memory, paint) : breakdown(memory.device(), paint);
  out += facts_of_peak(memory);
  out += saves_text(facts);
  out += meshes_text(facts, paint);
  out += stages_text(facts, paint);
  out += lanes_text(facts, paint);
  out += layers_text(memory, paint);
  out += largest(memory.device(), paint);
  out += runners_up_text(facts, paint);
  out += changes_text(memory, facts, paint);
  return out;
}

}  // namespace snug
