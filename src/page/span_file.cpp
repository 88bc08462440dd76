#include "page/span_file.h"

#include <algorithm>
#include <optional>

#include "page/json_rows.h"

namespace snug {
namespace {

constexpr size_t kMostKept = size_t{1} << 18;
constexpr size_t kMostLanes = 64;
constexpr size_t kLongestName = 300;

std::string text_in(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string()
             ? without_end(found->get<std::string>(), kLongestName)
             : "";
}

class SpanReading {
 public:
  bool add(const nlohmann::json& line) {
    const double begin = number_in(line, "begin_s"), end = number_in(line, "end_s");
    if (!(begin >= 0 && end >= begin && end <= 1e9)) return false;
    if (text_in(line, "origin") == "measured") add_measured(line, begin, end);
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
    const double number = number_in(line, "layer"), ops = number_in(line, "ops");
    const int32_t layer = number >= 0 && number < 1e6 ? static_cast<int32_t>(number) : kNoLayer;
    out_.measured.push_back({.lane = lane_of(text_in(line, "lane")),
                             .begin = begin,
                             .end = end,
                             .name = text_in(line, "op"),
                             .kind = text_in(line, "kind"),
                             .layer = layer,
                             .ops = ops >= 1 && ops < 1e9 ? static_cast<int64_t>(ops) : 1});
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
