#include "page/memory_file.h"

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "page/json_rows.h"
#include "placement/breakdown.h"

namespace snug {
namespace {

constexpr size_t kMostKeptChanges = size_t{1} << 16;  // of a space
constexpr double kMostBytes = 1e15;

struct Instant {
  double begin = 0;
  std::string name, phase;
  int32_t layer = kNoLayer;
  CategoryBytes live{};
};

class MemoryReading {
 public:
  MemoryReading(Texts& texts, const std::vector<std::string>& layers)
      : texts_(texts), layers_(layers) {}

  bool add(const nlohmann::json& line) {
    const double begin = number_in(line, "begin_s"), said = number_in(line, "step");
    const double step = said >= 0 ? said : -1;
    const std::optional<Space> space = parse_space(short_text_in(line, "space"));
    const auto live = line.find("live");
    if (!(begin >= 0 && begin <= 1e9) || !space || live == line.end() || !live->is_object())
      return false;
    if (short_text_in(line, "origin") != "measured") return true;
    if (!step_) step_ = step;
    if (step != *step_) return true;
    std::vector<Instant>& instants = by_space_[static_cast<size_t>(*space)];
    if (instants.size() >= kMostKeptChanges) {
      ++left_out_;
      return true;
    }
    const double number = number_in(line, "layer");
    Instant& instant = instants.emplace_back(
        Instant{.begin = begin,
                .name = short_text_in(line, "op"),
                .phase = short_text_in(line, "phase"),
                .layer = number >= 0 && number < 1e6 ? static_cast<int32_t>(number) : kNoLayer});
    for (int c = 0; c < kCategories; ++c) {
      const double bytes = number_in(*live, std::string(name_of(static_cast<Category>(c))).c_str());
      if (bytes >= 0 && bytes <= kMostBytes)
        instant.live[static_cast<size_t>(c)] = static_cast<int64_t>(bytes);
    }
    return true;
  }

  MemoryOnPage take(const StepTimes& step, int64_t most, int64_t unreadable) {
    MemoryOnPage out{.left_out = left_out_, .unreadable = unreadable};
    for (const Space space : kAllSpaces) {
      std::vector<Instant>& instants = by_space_[static_cast<size_t>(space)];
      if (instants.empty()) continue;
      std::ranges::stable_sort(instants, {}, &Instant::begin);
      add_space(space, instants, step, most, out);
    }
    return out;
  }

 private:
  void add_space(Space space, const std::vector<Instant>& instants, const StepTimes& step,
                 int64_t most, MemoryOnPage& out) {
    const int64_t stride = ceil_div(std::ssize(instants), std::max<int64_t>(1, most));
    std::vector<const Instant*> shown;  // of so many neighbours the fullest
    for (size_t first = 0; first < instants.size(); first += static_cast<size_t>(stride)) {
      const size_t end = std::min(instants.size(), first + static_cast<size_t>(stride));
      const Instant* fullest = &instants[first];
      for (size_t i = first; i < end; ++i)
        if (total(instants[i].live) > total(fullest->live)) fullest = &instants[i];
      shown.push_back(fullest);
    }
    Json name = Json::array(), layer = name, phase = name, begin = name, live = name;
    size_t peak = 0;
    for (size_t i = 0; i < shown.size(); ++i) {
      name.push_back(texts_.index(without_layer(layers_, shown[i]->name, shown[i]->layer)));
      layer.push_back(shown[i]->layer);
      phase.push_back(texts_.index(shown[i]->phase));
      begin.push_back(microseconds(shown[i]->begin - step.begin));
      if (total(shown[i]->live) > total(shown[peak]->live)) peak = i;
    }
    begin.push_back(std::max(microseconds(step.end - step.begin), begin.back().get<int64_t>()));
    for (size_t c = 0; c < kCategories; ++c) {
      std::vector<int64_t> course;
      for (const Instant* instant : shown) course.push_back(instant->live[c]);
      live.push_back(changes_of(course));
    }
    const int64_t most_live = total(shown[peak]->live);
    if (space == Space::device) out.device_peak = most_live;
    Json axis{{"unit", "change"}, {"size", shown.size()}, {"stride", stride}, {"name", name},
              {"layer", layer},   {"phase", phase},       {"begin_us", begin}};
    axis["sections"] = Json::array({{{"name", "step"}, {"first", 0}, {"runs", 1}}});
    out.spaces.push_back({{"name", name_of(space)},
                          {"axis", out.axes.size()},
                          {"max_live", most_live},
                          {"peak", peak},
                          {"live", live}});
    out.axes.push_back(std::move(axis));
  }

  Texts& texts_;
  const std::vector<std::string>& layers_;
  std::optional<double> step_;  // the first that was measured
  std::array<std::vector<Instant>, kSpaces> by_space_;
  int64_t left_out_ = 0;
};

}  // namespace

MemoryOnPage read_memory(const std::filesystem::path& file, const StepTimes& step, Texts& texts,
                         const std::vector<std::string>& layers, int64_t most) {
  MemoryReading reading(texts, layers);
  const int64_t unreadable =
      read_rows(file, [&](const nlohmann::json& row) { return reading.add(row); });
  return reading.take(step, most, unreadable);
}

}  // namespace snug
