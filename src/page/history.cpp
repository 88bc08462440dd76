#include "page/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/median.h"
#include "formats/json_depth.h"
#include "formats/json_lines.h"

namespace snug {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();  // JSON has it as null
constexpr std::array kColumnNames{
    "loss", "lr", "grad_norm", "tokens_per_s", "seconds", "process_bytes", "allocated_bytes"};
constexpr size_t kLoss = 0, kSpeed = 3;

struct StepRow {
  int64_t step = 0;
  std::array<double, kColumnNames.size()> numbers{};
};

double number_in(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found == line.end() || !found->is_number() ? kNothing : found->get<double>();
}

int64_t bytes_in(const Json& line, const char* key) {
  const double bytes = number_in(line, key);
  return bytes >= 0 && bytes < 9e18 ? static_cast<int64_t>(bytes) : 0;
}

std::optional<double> or_nothing(double number) {
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

Json finite(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

// Of each group of neighbours the steps with the lowest and the highest loss, in their order.
std::vector<StepRow> thinned(const std::vector<StepRow>& rows, int64_t most) {
  if (std::ssize(rows) <= most) return rows;
  const auto groups = static_cast<size_t>(most / 2);
  std::vector<StepRow> out;
  for (size_t g = 0; g < groups; ++g) {
    const auto begin = rows.begin() + static_cast<int64_t>(rows.size() * g / groups);
    const auto end = rows.begin() + static_cast<int64_t>(rows.size() * (g + 1) / groups);
    const auto [low, high] = std::minmax_element(
        begin, end,
        [](const StepRow& a, const StepRow& b) { return a.numbers[kLoss] < b.numbers[kLoss]; });
    out.push_back(std::min(low, high)[0]);
    if (low != high) out.push_back(std::max(low, high)[0]);
  }
  return out;
}

class Reading {
 public:
  void add(std::string_view text) {
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto step = line.is_object() ? line.find("step") : line.end();
    if (!line.is_object() || step == line.end() || !step->is_number_integer()) {
      ++out_.unreadable;
    } else if (line.contains("eval_loss")) {
      add_eval(step->get<int64_t>(), number_in(line, "eval_loss"));
    } else if (line.contains("loss")) {
      add_step(step->get<int64_t>(), line);
    }
  }

  HistoryOnPage take(int64_t most) {
    if (rows_.empty()) return std::move(out_);
    std::vector<double> speeds;
    for (size_t i = rows_.size() > 20 ? rows_.size() - 20 : 0; i < rows_.size(); ++i)
      if (std::isfinite(rows_[i].numbers[kSpeed])) speeds.push_back(rows_[i].numbers[kSpeed]);
    if (!speeds.empty()) out_.tokens_per_s = median(speeds);
    out_.first_loss = or_nothing(rows_.front().numbers[kLoss]);
    out_.last_loss = or_nothing(rows_.back().numbers[kLoss]);
    out_.last_step = rows_.back().step;
    const std::vector<StepRow> shown = thinned(rows_, most);
    Json json = {{"all", rows_.size()}, {"steps", out_.last_step}, {"last_step", out_.last_step}};
    json["first_loss"] = finite(out_.first_loss.value_or(kNothing));
    json["last_loss"] = finite(out_.last_loss.value_or(kNothing));
    for (const StepRow& row : shown) json["step"].push_back(row.step);
    for (size_t c = 0; c < kColumnNames.size(); ++c)
      for (const StepRow& row : shown) json[kColumnNames[c]].push_back(finite(row.numbers[c]));
    json["evals"] = evals_;
    out_.json = std::move(json);
    return std::move(out_);
  }

 private:
  void add_step(int64_t step, const Json& line) {
    StepRow row{.step = step};
    for (size_t c = 0; c < kColumnNames.size(); ++c)
      row.numbers[c] = number_in(line, kColumnNames[c]);
    rows_.push_back(row);
    out_.allocated = bytes_in(line, "allocated_bytes");
    out_.peak = bytes_in(line, "peak_bytes");
    out_.context = bytes_in(line, "context_bytes");
    out_.hours_left = or_nothing(number_in(line, "hours_left")).value_or(0);
  }
  void add_eval(int64_t step, double loss) {
    if (!out_.first_eval) out_.first_eval = or_nothing(loss);
    out_.last_eval = or_nothing(loss);
    if (std::ssize(evals_) < kMostSteps) evals_.push_back({step, finite(loss)});
  }

  std::vector<StepRow> rows_;
  Json evals_ = Json::array();
  HistoryOnPage out_;
};

}  // namespace

HistoryOnPage read_history(const std::filesystem::path& file, int64_t most) {
  FileReader reader(file);
  std::byte last{};
  if (reader.size() > 0) reader.read(reader.size() - 1, {&last, 1});
  const bool half_a_line = last != std::byte{'\n'} && reader.size() > 0;
  const int64_t size = reader.size();
  LineReader lines(std::move(reader));
  LineReader::Batch batch;
  Reading reading;
  while (lines.read(4 << 20, batch))
    for (const Line& line : batch.lines) {
      require_shallow_json(line.text, file.string());
      reading.add(line.text);
    }
  HistoryOnPage out = reading.take(most);
  if (half_a_line && out.unreadable > 0) --out.unreadable;  // a run that is going on, or was killed
  if (!out.json.is_null()) return out;
  if (size == 0) throw bad_input("{} is empty: the run has done no step", file.string());
  throw bad_input("{} has no line of a step: it is no history of a run", file.string());
}

}  // namespace snug
