#include "page/span_file.h"

#include <algorithm>
#include <optional>

#include "page/json_rows.h"

namespace snug {
namespace {

constexpr size_t kMostKept = size_t{1} << 18;
constexpr size_t kMostLanes = 64;
constexpr size_t kMostCalls = 4096;

// None where it is no number from `least` to below `end`.
std::optional<int64_t> count_in(const nlohmann::json& line, const char* key, double least,
                                double end) {
  const double number = number_in(line, key);
  if (!(number >= least && number < end)) return {};
  return static_cast<int64_t>(number);
}

class SpanReading {
 public:
  bool add(const nlohmann::json& line) {
    const double begin = number_in(line, "begin_s"), end = number_in(line, "end_s");
    if (!(begin >= 0 && end >= begin && end <= 1e9)) return false;
    const std::string origin = short_text_in(line, "origin");
    if (origin == "measured") add_measured(line, begin, end);
    if (origin == "predicted" && out_.predicted.size() < kMostKept)
      out_.predicted.push_back(span_in(line, begin, end));
    return true;
  }
  SpansOnPage take(int64_t unreadable) {
    out_.unreadable = unreadable;
    return std::move(out_);
  }

 private:
  void add_measured(const nlohmann::json& line, double begin, double end) {
    const double said = number_in(line, "step"), step = said >= 0 ? said : -1;
    if (!step_) step_ = step;
    if (step != *step_) return;
    if (out_.measured.size() >= kMostKept) {
      ++out_.left_out;
      return;
    }
    out_.measured.push_back(span_in(line, begin, end));
    if (line.contains("axis")) add_call(line, end - begin);
  }
  ShownSpan span_in(const nlohmann::json& line, double begin, double end) {
    return {.lane = lane_of(short_text_in(line, "lane")),
            .begin = begin,
            .end = end,
            .name = short_text_in(line, "op"),
            .kind = short_text_in(line, "kind"),
            .layer = static_cast<int32_t>(count_in(line, "layer", 0, 1e6).value_or(kNoLayer)),
            .ops = count_in(line, "ops", 1, 1e9).value_or(1)};
  }
  void add_call(const nlohmann::json& line, double seconds) {
    if (out_.calls.size() >= kMostCalls) {
      ++out_.calls_left_out;
      return;
    }
    out_.calls.push_back({.lane = out_.measured.back().lane,
                          .ranks = count_in(line, "ranks", 0, 1e6).value_or(0),
                          .stride = count_in(line, "stride", 1, 1e6).value_or(1),
                          .peer = count_in(line, "peer", 0, 1e6).value_or(-1),
                          .seconds = seconds});
  }
  std::string lane_of(std::string lane) {
    if (std::ranges::find(lanes_, lane) != lanes_.end()) return lane;
    if (lanes_.size() >= kMostLanes) return lanes_.back();
    lanes_.push_back(lane);
    return lane;
  }

  std::optional<double> step_;  // the first that was measured
  std::vector<std::string> lanes_;
  SpansOnPage out_;
};

}  // namespace

SpansOnPage read_spans(const std::filesystem::path& file) {
  SpanReading reading;
  return reading.take(read_rows(file, [&](const nlohmann::json& row) { return reading.add(row); }));
}

}  // namespace snug
