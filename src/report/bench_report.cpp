#include "report/bench_report.h"

#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr double kGiB = 1 << 30;

template <typename Report>
std::string headline(const Options& options, const Report& report) {
  return fmt::format("{} · {} of {} x {} tokens a step · {}\n", options.model,
                     counted(report.accum, "micro-batch"), report.batch, report.seq, report.device);
}

template <typename Report>
Json head_json(const Options& options, const Report& report) {
  return {{"model", options.model},
          {"device", report.device},
          {"batch", report.batch},
          {"seq", report.seq},
          {"accum", report.accum}};
}

// Of snug to another: tokens per second, and bytes.
struct Ratio {
  double speed = 0, memory = 0;
};
Ratio ratio_of(const BenchRow& snug, const BenchRow& other) {
  return {snug.tokens_per_s / other.tokens_per_s,
          static_cast<double>(snug.peak_bytes) / static_cast<double>(other.peak_bytes)};
}

std::string roofline_row(std::string_view name, std::string_view calls, double measured,
                         double roofline, std::string_view rate = "") {
  return std::string(
             trim_end(fmt::format("{:<34}{:>6}{:>12.3f} ms{:>12.3f} ms{:>7.1f}%  {}", name, calls,
                                  measured, roofline, 100 * roofline / measured, rate))) +
         "\n";
}

std::string rate_of(const RooflineRow& row) {
  const double seconds = row.measured_ms * 1e-3;
  return row.arithmetic ? fmt::format("{:>6.1f} TFLOP/s", row.flops / seconds * 1e-12)
                        : fmt::format("{:>6.2f} TB/s", row.bytes / seconds * 1e-12);
}

std::string program_table(const RooflineProgram& program) {
  std::string out = fmt::format("\n{:<34}{:>6}{:>15}{:>15}\n",
                                fmt::format("{}, {} a step", program.name, program.times), "calls",
                                "measured", "roofline");
  for (const RooflineRow& row : program.rows) {
    out += roofline_row(row.kind, fmt::format("{}", row.calls), row.measured_ms, row.roofline_ms,
                        rate_of(row));
  }
  return out + roofline_row("all", "", program.measured_ms(), program.roofline_ms());
}

double tokens_per_s(const RooflineReport& report, double ms) {
  return static_cast<double>(report.tokens) / ms * 1e3;
}

template <typename Programs, typename Member>
double per_step(const Programs& programs, Member member) {
  double sum = 0;
  for (const RooflineProgram& p : programs) sum += static_cast<double>(p.times) * (p.*member)();
  return sum;
}

}  // namespace

double RooflineProgram::measured_ms() const {
  double sum = 0;
  for (const RooflineRow& row : rows) sum += row.measured_ms;
  return sum;
}

double RooflineProgram::roofline_ms() const {
  double sum = 0;
  for (const RooflineRow& row : rows) sum += row.roofline_ms;
  return sum;
}

double RooflineReport::ops_ms() const { return per_step(programs, &RooflineProgram::measured_ms); }
double RooflineReport::roofline_ms() const {
  return per_step(programs, &RooflineProgram::roofline_ms);
}

std::string peer_head(const PeerReport& report, const Options& options) {
  return fmt::format(
      "{}{} each; ratios are Snug's figure to the other's\n\n"
      "{:<16}{:>12}{:>14}{:>14}{:>12}{:>10}\n",
      headline(options, report), counted(options.steps, "step"), "", "tokens/s", "a step", "peak",
      "tokens/s", "peak");
}

std::string peer_row(const BenchRow& row, const BenchRow& snug) {
  if (!row.failed.empty()) return fmt::format("{:<16}no figures: {}\n", row.name, row.failed);
  std::string out =
      fmt::format("{:<16}{:>12}{:>11.1f} ms{:>10.2f} GiB", row.name, format_rate(row.tokens_per_s),
                  row.step_ms, static_cast<double>(row.peak_bytes) / kGiB);
  if (row.name != snug.name) {
    const Ratio ratio = ratio_of(snug, row);
    out += fmt::format("{:>10.2f} x{:>8.2f} x", ratio.speed, ratio.memory);
  }
  out += "\n";
  if (row.arena_bytes > 0)
    out += fmt::format("{:<16}arena {} bytes, as planned\n", "", format_exact(row.arena_bytes));
  if (!row.note.empty()) out += fmt::format("{:<16}{}\n", "", row.note);
  return out;
}

std::string peer_json(const PeerReport& report, const Options& options) {
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
  return out.dump(2);
}

std::string roofline_table(const RooflineReport& report, const Options& options) {
  std::string out = fmt::format("{}copies at {:.2f} TB/s, bytes read and written\n",
                                headline(options, report), report.copy_bytes_per_s * 1e-12);
  for (const RooflineProgram& program : report.programs) out += program_table(program);
  out += "\n";
  out += roofline_row("a step, op by op", "", report.ops_ms(), report.roofline_ms());
  out += roofline_row("a step as it is replayed", "", report.step_ms, report.roofline_ms());
  return out + fmt::format("{:<40}{:>15}{:>15}\n", "tokens/s",
                           format_rate(tokens_per_s(report, report.step_ms)),
                           format_rate(tokens_per_s(report, report.roofline_ms())));
}

std::string roofline_json(const RooflineReport& report, const Options& options) {
  Json out = head_json(options, report);
  out.update({{"copy_bytes_per_s", report.copy_bytes_per_s},
              {"step_ms", report.step_ms},
              {"ops_ms", report.ops_ms()},
              {"roofline_ms", report.roofline_ms()},
              {"tokens_per_s", tokens_per_s(report, report.step_ms)},
              {"roofline_tokens_per_s", tokens_per_s(report, report.roofline_ms())},
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
  return out.dump(2);
}

}  // namespace snug
