#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/bar.h"
#include "base/text.h"
#include "base/units.h"
#include "plan/report.h"

namespace snug {
namespace {

constexpr int kColumns = 98;
constexpr int kBarColumns = 38;
constexpr size_t kLargestShown = 5;

// Terminal colours, or nothing.
struct Paint {
  bool on = false;
  std::string operator()(std::string_view code, std::string_view text) const {
    return on && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  std::string title(std::string_view text) const { return (*this)("1", text); }
  std::string quiet(std::string_view text) const { return (*this)("2", text); }
  std::string good(std::string_view text) const { return (*this)("1;32", text); }
  std::string bad(std::string_view text) const { return (*this)("1;31", text); }
  std::string bar(size_t row, std::string_view text) const {
    constexpr std::array<std::string_view, 6> kHues{"34", "36", "35", "33", "32", "31"};
    return (*this)(kHues[row % kHues.size()], text);
  }
};

std::string spaces(int columns) {
  return std::string(static_cast<size_t>(std::max(columns, 0)), ' ');
}

std::string rule(int columns) {
  std::string line;
  for (int i = 0; i < columns; ++i) line += "─";
  return line;
}

// Words after one another with " · " between, broken into lines that fit.
std::string flow(const std::vector<std::string>& words) {
  std::string out;
  size_t columns = 0;
  for (const std::string& word : words) {
    if (columns > 0 && columns + 3 + word.size() > kColumns) {
      out += "\n";
      columns = 0;
    }
    out += columns == 0 ? word : " · " + word;
    columns += word.size() + (columns == 0 ? 0 : 3);
  }
  return out + "\n";
}

std::string text_of(const nlohmann::ordered_json& option) {
  return option.is_string() ? option.get<std::string>() : option.dump();
}

bool in_headline(const std::string& option, const PlanFacts& facts) {
  // What the first line has said already.
  constexpr std::array kSaid{"model", "batch", "seq", "accum", "global-batch"};
  if (std::ranges::count(kSaid, option) > 0) return false;
  return facts.headline.empty() || std::ranges::count(facts.headline, option) > 0;
}

std::string header(const Account& account, const PlanFacts& facts, const Paint& paint) {
  std::string tokens = fmt::format("{} tokens per step", format_exact(facts.tokens_per_step()));
  if (facts.accum > 1) tokens += fmt::format(" in {} micro-batches", facts.accum);
  const int64_t params = account.trainable_params + account.frozen_params;
  std::string out = paint.title(facts.model);
  out += fmt::format(" · {} parameters", format_count(static_cast<double>(params)));
  if (account.frozen_params > 0) {
    out +=
        fmt::format(" ({} trained)", format_count(static_cast<double>(account.trainable_params)));
  }
  out += fmt::format(" · batch {} x {} · {}\n", facts.batch, facts.seq, tokens);
  std::vector<std::string> words;
  for (const auto& [key, value] : facts.recipe.items()) {
    if (!value.is_null() && in_headline(key, facts)) words.push_back(key + " " + text_of(value));
  }
  return words.empty() ? out : out + paint.quiet(flow(words));
}

std::string byte_row(std::string_view name, const std::string& bar, int64_t bytes, double share) {
  return fmt::format("  {:<12} {} {:>19} {:>12} {:>7.1f} %\n", name, bar, format_exact(bytes),
                     format_bytes(bytes), share * 100);
}

// Where the bytes are at the peak instant: the rows add up to the arena.
std::string breakdown(const SpaceAccount& space, std::string_view title, const Paint& paint) {
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
  out += "  " + paint.quiet(rule(kColumns - 3)) + "\n";
  out += byte_row("arena", spaces(kBarColumns), arena, 1);
  return out;
}

std::string layer_name(int32_t layer) {
  return layer == kNoLayer ? "outside the layers" : fmt::format("layer {}", layer);
}

std::string fact(std::string_view name, const std::string& text) {
  return fmt::format("{:<9}{}\n", name, text);
}

std::string phases(const std::array<double, kPhases>& sums) {
  std::vector<std::string> parts;
  for (size_t p = 0; p < sums.size(); ++p) {
    if (sums[p] > 0)
      parts.push_back(fmt::format("{} {}", name_of(static_cast<Phase>(p)), format_count(sums[p])));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "state  16.00 bytes per parameter: params 4.00, grads 4.00, optimizer 8.00"
std::string state_per_parameter(const Account& account) {
  const auto params = static_cast<double>(account.trainable_params + account.frozen_params);
  if (params == 0) return "";
  double sum = 0;
  std::vector<std::string> parts;
  for (Category c : {Category::params, Category::master, Category::grads, Category::optimizer}) {
    const double each = static_cast<double>(account.shared[static_cast<size_t>(c)]) / params;
    sum += each;
    if (each > 0) parts.push_back(fmt::format("{} {:.2f}", name_of(c), each));
  }
  return fact("state", fmt::format("{:.2f} bytes per parameter: {}", sum, fmt::join(parts, ", ")));
}

std::string facts_of_peak(const Account& account) {
  const SpaceAccount& device = account.device();
  const PlacementStats& placed = device.placement;
  std::string out = "\n";
  if (!device.peak.program.empty()) {
    out += fact("peak",
                fmt::format("{}, {}", name_of(device.peak.phase), layer_name(device.peak.layer)));
    out += fact("", fmt::format("{} (op {} in {})", device.peak.op, device.peak.op_index,
                                device.peak.program));
  }
  const double whole = placed.max_live_bytes == 0 ? 1
                                                  : static_cast<double>(placed.arena_bytes) /
                                                        static_cast<double>(placed.max_live_bytes);
  out += fact("packing",
              fmt::format("arena / max-live {:.4f}; values that come and go: {:.4f} ({} in {})",
                          whole, placed.ratio(), format_bytes(placed.transient_max_live_bytes),
                          format_bytes(placed.transient_arena_bytes)));
  out += state_per_parameter(account);
  const std::string work = phases(account.step_flops);
  if (!work.empty()) out += fact("work", "operations per step: " + work);
  return out;
}

std::string some_bytes(int64_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); }

std::string layer_row(std::string_view name, const LayerAccount& l) {
  return fmt::format("  {:<14} {:>12} {:>12} {:>12} {:>14} {:>14}\n", name, some_bytes(l.params),
                     some_bytes(l.grads), some_bytes(l.optimizer), some_bytes(l.kept),
                     some_bytes(l.at_peak));
}

std::string layers_name(int32_t first, int32_t last) {
  if (first == kNoLayer) return "no layer";
  return first == last ? fmt::format("{}", first) : fmt::format("{}..{} each", first, last);
}

// What recompute was chosen, one group of layers to a line, and why.
std::string choice(const PlanFacts& facts) {
  if (!facts.chosen) return "";
  std::string out;
  for (const std::string& group : split(facts.chosen->policy, ';')) {
    out += fact(out.empty() ? "chosen" : "",
                (out.empty() ? "recompute: " : "           ") + std::string(trim(group)));
  }
  out += fact(
      "", fmt::format("keeping everything needs {} ({} bytes); modelled time {:+.1f} %",
                      format_bytes(facts.chosen->needed_without),
                      format_exact(facts.chosen->needed_without), 100 * facts.chosen->extra_time));
  return out;
}

// Equal layers that follow one another are one line.
std::string layers(const Account& account, const Paint& paint) {
  if (account.layers.empty()) return "";
  std::string out =
      fmt::format("\n{}{:>20} {:>12} {:>12} {:>14} {:>14}\n", paint.title("per layer"), "params",
                  "grads", "optimizer", "kept for bwd", "at the peak");
  for (size_t from = 0; from < account.layers.size();) {
    size_t to = from + 1;
    while (to < account.layers.size() && account.layers[from].layer != kNoLayer &&
           account.layers[to].same_costs(account.layers[from]))
      ++to;
    out += layer_row(layers_name(account.layers[from].layer, account.layers[to - 1].layer),
                     account.layers[from]);
    from = to;
  }
  return out;
}

std::string shortened(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 3) + "...";
}

std::string largest(const SpaceAccount& space, const Paint& paint) {
  if (space.largest.empty()) return "";
  std::string out = "\n" + paint.title("largest at the peak") + "\n";
  for (size_t i = 0; i < std::min(kLargestShown, space.largest.size()); ++i) {
    const OwnedBytes& v = space.largest[i];
    out += fmt::format("  {:<38} {:<24} {:<12} {:>12}\n", shortened(v.name, 38),
                       shortened(v.type.text(), 24), name_of(v.category), format_bytes(v.bytes));
  }
  return out;
}

std::string verdict(const Account& account, const PlanFacts& facts, const Paint& paint) {
  if (!facts.budget_bytes) return "";
  const int64_t for_arena = *facts.budget_bytes - facts.context_bytes;
  const int64_t left = for_arena - account.device().placement.arena_bytes;
  std::string budget = fmt::format("budget {}", format_bytes(*facts.budget_bytes));
  if (facts.context_bytes > 0) {
    budget += fmt::format(", of it {} for the context (driver, libraries)",
                          format_bytes(facts.context_bytes));
  }
  if (left >= 0) {
    return fmt::format("\n{}  {}: {} left ({} bytes)\n", paint.good("fits"), budget,
                       format_bytes(left), format_exact(left));
  }
  std::string out = fmt::format("\n{}  {}: {} too much ({} bytes)\n", paint.bad("does not fit"),
                                budget, format_bytes(-left), format_exact(-left));
  for (const Advice& a : facts.advice) {
    const bool enough = a.peak_bytes <= for_arena;
    out += fmt::format("  {:<40} {:>12}  {}\n", a.change, format_bytes(a.peak_bytes),
                       enough ? paint.good("fits") : paint.quiet("not yet"));
  }
  return out;
}

}  // namespace

std::string render_plan(const Account& account, const PlanFacts& facts, bool colour) {
  const Paint paint{colour};
  std::string out = header(account, facts, paint);
  out += breakdown(account.device(), "device memory at the peak", paint);
  for (Space space : {Space::host, Space::disk}) {
    if (account[space].placement.arena_bytes == 0) continue;
    out += breakdown(account[space], fmt::format("{} memory at its peak", name_of(space)), paint);
  }
  out += facts_of_peak(account);
  out += choice(facts);
  out += layers(account, paint);
  out += largest(account.device(), paint);
  out += verdict(account, facts, paint);
  return out;
}

}  // namespace snug
