#include "page/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>

#include "base/error.h"
#include "base/median.h"
#include "page/json_rows.h"

namespace snug {
namespace {

constexpr std::array kColumnNames{
    "loss", "lr", "grad_norm", "tokens_per_s", "process_bytes", "allocated_bytes"};
constexpr size_t kLoss = 0;
constexpr int64_t kRowsAPoint = 512;  // in memory; beyond that they are thinned to a quarter
constexpr size_t kLastSpeeds = 20;

struct StepRow {
  int64_t step = 0;
  std::array<double, kColumnNames.size()> numbers{};
};

int64_t bytes_in(const nlohmann::json& row, const char* key) {
  const double bytes = number_in(row, key);
  return bytes >= 0 && bytes < 9e18 ? static_cast<int64_t>(bytes) : 0;
}

std::optional<double> or_nothing(double number) {
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

Json finite(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

// Of each group of neighbours the steps with the lowest and the highest loss, in their order. A loss that is not finite is
// neither.
std::vector<StepRow> thinned(const std::vector<StepRow>& rows, int64_t most) {
  if (std::ssize(rows) <= most) return rows;
  const auto loss_or = [](double instead) {
    return [instead](const StepRow& row) {
      return std::isfinite(row.numbers[kLoss]) ? row.numbers[kLoss] : instead;
    };
  };
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto groups = static_cast<size_t>(std::max<int64_t>(1, most / 2));
  std::vector<StepRow> out;
  for (size_t g = 0; g < groups; ++g) {
    const auto begin = rows.begin() + static_cast<int64_t>(rows.size() * g / groups);
    const auto end = rows.begin() + static_cast<int64_t>(rows.size() * (g + 1) / groups);
    const auto low = std::ranges::min_element(begin, end, {}, loss_or(kInfinite));
    const auto high = std::ranges::max_element(begin, end, {}, loss_or(-kInfinite));
    out.push_back(std::min(low, high)[0]);
    if (low != high) out.push_back(std::max(low, high)[0]);
  }
  return out;
}

class Reading {
 public:
  explicit Reading(int64_t most) : most_(most) {}

  bool add(const nlohmann::json& row) {
    const auto step = row.find("step");
    if (step == row.end() || !step->is_number_integer()) return false;
    if (row.contains("eval_loss"))
      add_eval(step->get<int64_t>(), number_in(row, "eval_loss"));
    else if (row.contains("loss"))
      add_step(step->get<int64_t>(), row);
    return true;
  }

  HistoryOnPage take() {
    if (rows_.empty()) return std::move(out_);
    if (!speeds_.empty()) out_.tokens_per_s = median({speeds_.begin(), speeds_.end()});
    out_.last_step = rows_.back().step;
    const std::vector<StepRow> shown = thinned(rows_, most_);
    Json json = {{"all", steps_}, {"steps", out_.last_step}, {"last_step", out_.last_step}};
    json["first_loss"] = or_null(out_.first_loss);
    json["last_loss"] = or_null(out_.last_loss);
    for (const StepRow& row : shown) json["step"].push_back(row.step);
    for (size_t c = 0; c < kColumnNames.size(); ++c)
      for (const StepRow& row : shown) json[kColumnNames[c]].push_back(finite(row.numbers[c]));
    if (std::ssize(evals_) > most_) keep_half_of_evals();
    json["evals"] = Json::array();
    for (const auto& [step, loss] : evals_) json["evals"].push_back({step, finite(loss)});
    out_.json = std::move(json);
    return std::move(out_);
  }

 private:
  void add_step(int64_t step, const nlohmann::json& line) {
    StepRow row{.step = step};
    for (size_t c = 0; c < kColumnNames.size(); ++c)
      row.numbers[c] = number_in(line, kColumnNames[c]);
    if (const int64_t most = kRowsAPoint * most_; std::ssize(rows_) >= most)
      rows_ = thinned(rows_, most / 4);
    rows_.push_back(row);
    ++steps_;
    add_loss(step, row.numbers[kLoss]);
    if (const double speed = number_in(line, "tokens_per_s"); std::isfinite(speed)) {
      speeds_.push_back(speed);
      if (speeds_.size() > kLastSpeeds) speeds_.pop_front();
    }
    out_.allocated = bytes_in(line, "allocated_bytes");
    out_.peak = bytes_in(line, "peak_bytes");
    out_.context = bytes_in(line, "context_bytes");
    out_.hours_left = or_nothing(number_in(line, "hours_left")).value_or(0);
  }
  void add_loss(int64_t step, double loss) {
    if (std::isfinite(loss)) {
      if (!out_.first_loss) out_.first_loss = loss;
      out_.last_loss = loss;
      out_.not_finite_since.reset();
    } else if (!out_.not_finite_since) {
      out_.not_finite_since = step;
    }
  }
  void add_eval(int64_t step, double loss) {
    if (!out_.first_eval) out_.first_eval = or_nothing(loss);
    out_.last_eval = or_nothing(loss);
    if (std::ssize(evals_) >= 2 * most_) keep_half_of_evals();
    evals_.emplace_back(step, loss);
    ++out_.evaluations;
  }
  // Every other one, the last among them.
  void keep_half_of_evals() {
    std::vector<std::pair<int64_t, double>> half;
    for (size_t i = (evals_.size() - 1) % 2; i < evals_.size(); i += 2) half.push_back(evals_[i]);
    evals_ = std::move(half);
  }

  int64_t most_ = 0, steps_ = 0;
  std::vector<StepRow> rows_;
  std::deque<double> speeds_;
  std::vector<std::pair<int64_t, double>> evals_;
  HistoryOnPage out_;
};

}  // namespace

HistoryOnPage read_history(const std::filesystem::path& file, int64_t most) {
  Reading reading(most);
  const int64_t unreadable =
      read_rows(file, [&](const nlohmann::json& row) { return reading.add(row); });
  HistoryOnPage out = reading.take();
  out.unreadable = unreadable;
  if (!out.json.is_null() || out.evaluations > 0) return out;
  std::error_code ignored;
  if (std::filesystem::file_size(file, ignored) == 0)
    throw bad_input("{} is empty: the run has done no step", file.string());
  throw bad_input("{} has no line of a step: it is no history of a run", file.string());
}

}  // namespace snug
