#include "page/span_file.h"

#include <algorithm>

#include "formats/json_depth.h"
#include "formats/json_lines.h"

namespace snug {
namespace {

constexpr size_t kMostKept = size_t{1} << 21;
constexpr size_t kMostLanes = 64;
constexpr size_t kLongestName = 300;

std::string text_in(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string()
             ? without_end(found->get<std::string>(), kLongestName)
             : "";
}
double number_in_span(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : -1;
}

class SpanReading {
 public:
  void add(std::string_view text) {
    const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    const double begin = line.is_object() ? number_in_span(line, "begin_s") : -1;
    const double end = line.is_object() ? number_in_span(line, "end_s") : -1;
    if (begin < 0 || end < begin || end > 1e9) {
      ++out_.unreadable;
      return;
    }
    if (text_in(line, "origin") != "measured") return;
    const double step = number_in_span(line, "step");
    if (step_ < 0) step_ = step;
    if (step != step_) return;
    if (out_.measured.size() >= kMostKept) {
      ++out_.left_out;
      return;
    }
    const double number = number_in_span(line, "layer"), ops = number_in_span(line, "ops");
    const int32_t layer = number >= 0 && number < 1e6 ? static_cast<int32_t>(number) : kNoLayer;
    out_.measured.push_back({.lane = lane_of(text_in(line, "lane")),
                             .begin = begin,
                             .end = end,
                             .name = text_in(line, "op"),
                             .kind = text_in(line, "kind"),
                             .layer = layer,
                             .ops = ops >= 1 && ops < 1e9 ? static_cast<int64_t>(ops) : 1});
  }
  SpansOnPage take() { return std::move(out_); }

 private:
  std::string lane_of(std::string lane) {
    if (std::ranges::find(lanes_, lane) != lanes_.end()) return lane;
    if (lanes_.size() >= kMostLanes) return lanes_.back();
    lanes_.push_back(lane);
    return lane;
  }

  double step_ = -1;
  std::vector<std::string> lanes_;
  SpansOnPage out_;
};

}  // namespace

SpansOnPage read_spans(const std::filesystem::path& file) {
  SpanReading reading;
  LineReader lines{FileReader(file)};
  LineReader::Batch batch;
  while (lines.read(4 << 20, batch))
    for (const Line& line : batch.lines) {
      require_shallow_json(line.text, file.string());
      reading.add(line.text);
    }
  return reading.take();
}

}  // namespace snug
