// snug bench MODEL: beside a peer (--peer torch), or beside what the device could do (--roofline).
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "snug/bench.h"
#include "verbs.h"

namespace snug::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGiB = 1 << 30;

template <typename Report>
std::string headline(const Options& options, const Report& report) {
  return fmt::format("{} · {} micro-batch{} of {} x {} tokens a step · {}\n", options.model,
                     report.accum, report.accum == 1 ? "" : "es", report.batch, report.seq,
                     report.device);
}

template <typename Report>
Json head_json(const Options& options, const Report& report) {
  return {{"model", options.model},
          {"device", report.device},
          {"batch", report.batch},
          {"seq", report.seq},
          {"accum", report.accum}};
}

// --- --peer -------------------------------------------------------------------------------------

// Of snug to another: tokens per second, and bytes.
struct Ratio {
  double speed = 0, memory = 0;
};
Ratio ratio_of(const BenchRow& snug, const BenchRow& other) {
  return {snug.tokens_per_s / other.tokens_per_s,
          static_cast<double>(snug.peak_bytes) / static_cast<double>(other.peak_bytes)};
}

class PeerTable {
 public:
  explicit PeerTable(const Options& options) : options_(options) {}

  PeerObserver observer() {
    return {.started = [this](const PeerReport& report) { started(report); },
            .running = [](const std::string& name) { running(name); },
            .measured = [this](const BenchRow& row) { measured(row); }};
  }

 private:
  void started(const PeerReport& report) const {
    if (options_.json) return;
    fmt::print("{}{} steps each; ratios are Snug's figure to the other's\n\n",
               headline(options_, report), options_.steps);
    fmt::print("{:<16}{:>12}{:>14}{:>14}{:>12}{:>10}\n", "", "tokens/s", "a step", "peak",
               "tokens/s", "peak");
  }

  static void running(const std::string& name) {
    if (!stderr_is_terminal()) return;
    fmt::print(stderr, "{} ...", name);
    std::fflush(stderr);
  }

  void measured(const BenchRow& row) {
    if (stderr_is_terminal()) fmt::print(stderr, "\r\033[K");
    if (snug_.name.empty()) snug_ = row;
    if (!options_.json) print_row(row);
    std::fflush(stdout);
  }

  void print_row(const BenchRow& row) const {
    if (!row.failed.empty()) {
      fmt::print("{:<16}no figures: {}\n", row.name, row.failed);
      return;
    }
    std::string ratios;
    if (row.name != snug_.name) {
      const Ratio ratio = ratio_of(snug_, row);
      ratios = fmt::format("{:>10.2f} x{:>8.2f} x", ratio.speed, ratio.memory);
    }
    fmt::print("{:<16}{:>12}{:>11.1f} ms{:>10.2f} GiB{}\n", row.name,
               format_exact(static_cast<int64_t>(row.tokens_per_s)), row.step_ms,
               static_cast<double>(row.peak_bytes) / kGiB, ratios);
    if (row.arena_bytes > 0)
      fmt::print("{:<16}arena {} bytes, as planned\n", "", format_exact(row.arena_bytes));
    if (!row.note.empty()) fmt::print("{:<16}{}\n", "", row.note);
  }

  const Options& options_;
  BenchRow snug_;
};

Json to_json(const PeerReport& report, const Options& options) {
  Json out = head_json(options, report);
  out["rows"] = Json::array();
  for (const BenchRow& row : report.rows) {
    Json& to = out["rows"].emplace_back(Json{{"name", row.name}});
    if (!row.failed.empty()) {
      to["failed"] = row.failed;
      continue;
    }
    to.update({{"tokens_per_s", row.tokens_per_s},
               {"step_ms", row.step_ms},
               {"peak_bytes", row.peak_bytes}});
    if (row.arena_bytes > 0) to["arena_bytes"] = row.arena_bytes;
    if (!row.note.empty()) to["note"] = row.note;
    if (row.name == report.rows.front().name) continue;
    const Ratio ratio = ratio_of(report.rows.front(), row);
    to.update({{"speed_ratio", ratio.speed}, {"memory_ratio", ratio.memory}});
  }
  return out;
}

// The script lies in bench/ beside the directory of this program.
Peer torch_peer() {
  Peer peer;
  if (const char* python = std::getenv("SNUG_PYTHON")) peer.python = python;
  const std::filesystem::path here = std::filesystem::canonical("/proc/self/exe").parent_path();
  peer.script = (here.parent_path() / "bench" / "torch_gpu.py").string();
  return peer;
}

void compare(const Options& options, const std::string& words) {
  PeerTable table(options);
  Peer peer = torch_peer();
  if (const size_t colon = words.find(':'); colon != std::string::npos)
    peer.modes = split(std::string_view(words).substr(colon + 1), ',');
  const PeerReport report = bench_peer(options, peer, table.observer());
  if (options.json) fmt::print("{}\n", to_json(report, options).dump(2));
}

// --- --roofline ---------------------------------------------------------------------------------

void print_line(std::string_view name, std::string_view calls, double measured, double roofline,
                const std::string& rate) {
  const std::string line = fmt::format("{:<34}{:>6}{:>12.3f} ms{:>12.3f} ms{:>7.1f}%  {}", name,
                                       calls, measured, roofline, 100 * roofline / measured, rate);
  fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
}

std::string rate_of(const RooflineRow& row) {
  const double seconds = row.measured_ms * 1e-3;
  return row.arithmetic ? fmt::format("{:>6.1f} TFLOP/s", row.flops / seconds * 1e-12)
                        : fmt::format("{:>6.2f} TB/s", row.bytes / seconds * 1e-12);
}

void print_table(const RooflineReport& report, const Options& options) {
  fmt::print("{}copies at {:.2f} TB/s, bytes read and written\n", headline(options, report),
             report.copy_bytes_per_s * 1e-12);
  for (const RooflineProgram& program : report.programs) {
    fmt::print("\n{:<34}{:>6}{:>15}{:>15}\n",
               fmt::format("{}, {} a step", program.name, program.times), "calls", "measured",
               "roofline");
    for (const RooflineRow& row : program.rows) {
      print_line(row.kind, fmt::format("{}", row.calls), row.measured_ms, row.roofline_ms,
                 rate_of(row));
    }
    print_line("all", "", program.measured_ms(), program.roofline_ms(), "");
  }
  const auto rate = [&](double ms) {
    return format_exact(static_cast<int64_t>(static_cast<double>(report.tokens) / ms * 1e3));
  };
  fmt::print("\n");
  print_line("a step, op by op", "", report.ops_ms(), report.roofline_ms(), "");
  print_line("a step as it is replayed", "", report.step_ms, report.roofline_ms(), "");
  fmt::print("{:<40}{:>15}{:>15}\n", "tokens/s", rate(report.step_ms), rate(report.roofline_ms()));
}

Json to_json(const RooflineReport& report, const Options& options) {
  const auto rate = [&](double ms) { return static_cast<double>(report.tokens) / ms * 1e3; };
  Json out = head_json(options, report);
  out.update({{"copy_bytes_per_s", report.copy_bytes_per_s},
              {"step_ms", report.step_ms},
              {"ops_ms", report.ops_ms()},
              {"roofline_ms", report.roofline_ms()},
              {"tokens_per_s", rate(report.step_ms)},
              {"roofline_tokens_per_s", rate(report.roofline_ms())},
              {"programs", Json::array()}});
  for (const RooflineProgram& program : report.programs) {
    Json& to = out["programs"].emplace_back(
        Json{{"name", program.name}, {"times", program.times}, {"ops", Json::array()}});
    for (const RooflineRow& row : program.rows) {
      to["ops"].push_back({{"kind", row.kind},
                           {"calls", row.calls},
                           {"measured_ms", row.measured_ms},
                           {"roofline_ms", row.roofline_ms},
                           {"bound", row.arithmetic ? "arithmetic" : "bytes"},
                           {"flops", row.flops},
                           {"bytes", row.bytes}});
    }
  }
  return out;
}

void show_roofline(const Options& options) {
  const RooflineReport report = roofline(options);
  if (options.json) {
    fmt::print("{}\n", to_json(report, options).dump(2));
  } else {
    print_table(report, options);
  }
}

}  // namespace

int bench_verb(const std::vector<std::string>& arguments) {
  CLI::App app("a GPU's speed and memory: beside a peer, or beside what it could do", "snug bench");
  Options options = bench_options();
  std::string peer;
  bool against_roofline = false;
  add_options(app, options, OptionUse::train);
  app.add_option(
      "--peer", peer,
      "torch[:eager,compile,transformers]: train the same in PyTorch, our model eager and "
      "compiled and Hugging Face's compiled");
  app.add_flag("--roofline", against_roofline, "each op's time beside what the device could do");
  if (!parse(app, arguments)) return 0;
  if (!peer.empty() && peer != "torch" && !peer.starts_with("torch:")) {
    throw usage_error("--peer '{}' is not a peer that Snug knows", peer)
        .hint("--peer torch is the one there is");
  }
  if (peer.empty() != against_roofline) {
    throw usage_error("snug bench needs one of --peer torch and --roofline").hint(help_hint(app));
  }
  if (!options.out.empty())
    throw usage_error("--out {}: bench keeps no model", options.out).hint("`snug train` keeps one");
  if (against_roofline) {
    show_roofline(options);
  } else {
    compare(options, peer);
  }
  return 0;
}

}  // namespace snug::cli
