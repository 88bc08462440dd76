#include "page/rank_profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/units.h"
#include "ir/lifetime.h"
#include "page/lane_spans.h"
#include "page/memory_file.h"
#include "page/span_file.h"
#include "report/layout.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSpans = "spans.jsonl";
constexpr const char* kMemory = "memory.jsonl";

struct Waiting {
  double all = 0;                     // seconds, for all others
  std::map<int64_t, double> by_rank;  // that was waited for
};

struct Rank {
  int64_t number = 0;
  double step = 0;
  std::vector<std::pair<std::string, double>> busy;  // lanes in their order, seconds
  std::optional<int64_t> peak;
  Waiting waits;
  double caused = 0;  // what others waited for it
};

fs::path folder_of(const fs::path& profile, int64_t rank) {
  return profile / fmt::format("rank-{}", rank);
}

// Those of so many ranks (0: of all) that have spans: the lowest numbers, and how many more there are.
std::pair<std::set<int64_t>, int64_t> ranks_in(const fs::path& profile, int64_t ranks) {
  constexpr std::string_view kPrefix = "rank-";
  std::set<int64_t> found;
  int64_t more = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(profile, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::string digits = name.substr(kPrefix.size());
    uint32_t number = 0;
    const auto [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (failure != std::errc() || digits != std::to_string(number)) continue;
    if (ranks > 0 && number >= ranks) continue;
    if (!fs::is_regular_file(entry.path() / kSpans, ignored)) continue;
    found.insert(number);
    if (std::ssize(found) <= kMostRanks) continue;
    found.erase(std::prev(found.end()));
    ++more;
  }
  return {found, more};
}

// Calls of all ranks: its number on a lane says which ranks exchange with each other.
class Calls {
 public:
  void add(int64_t rank, const std::vector<RankCall>& calls) {
    std::map<Key, int64_t> counts;
    for (const RankCall& call : calls) {
      Key key = key_of(rank, call);
      const int64_t at = counts[key]++;
      by_call_[{std::move(key), at}].push_back({rank, call.seconds});
    }
  }

  // The rank that came last was in it for the shortest time: the others waited for it.
  std::map<int64_t, Waiting> waits() const {
    std::map<int64_t, Waiting> out;
    for (const auto& [call, ranks] : by_call_) {
      const auto last = std::ranges::min_element(ranks, {}, &Part::seconds);
      for (const Part& part : ranks) {
        Waiting& waiting = out[part.rank];
        const double seconds = part.seconds - last->seconds;
        if (seconds <= 0) continue;
        waiting.all += seconds;
        waiting.by_rank[last->rank] += seconds;
      }
    }
    return out;
  }

 private:
  struct Part {
    int64_t rank;
    double seconds;
  };
  // Its lane, its group's first rank, their number and distance; of a message both ends.
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t, int64_t>;

  static Key key_of(int64_t rank, const RankCall& call) {
    const int64_t along = rank / call.stride;
    const int64_t place = call.ranks > 0 ? along % call.ranks : along;
    const int64_t first = rank - place * call.stride;
    if (call.peer < 0) return {call.lane, first, call.ranks, call.stride, -1};
    const int64_t peer = first + call.peer * call.stride;
    return {call.lane, std::min(rank, peer), call.ranks, call.stride, std::max(rank, peer)};
  }

  std::map<std::pair<Key, int64_t>, std::vector<Part>> by_call_;
};

StepTimes times_of(const std::vector<ShownSpan>& spans) {
  StepTimes out;
  if (!spans.empty()) out.begin = spans.front().begin;
  for (const ShownSpan& span : spans) {
    out.begin = std::min(out.begin, span.begin);
    out.end = std::max(out.end, span.end);
  }
  return out;
}

std::vector<std::pair<std::string, double>> busy_of(const std::vector<ShownSpan>& spans) {
  std::vector<std::pair<std::string, double>> out;
  for (const ShownSpan& span : spans) {
    auto lane = std::ranges::find(out, span.lane, &std::pair<std::string, double>::first);
    if (lane == out.end()) lane = out.insert(lane, {span.lane, 0});
    lane->second += span.end - span.begin;
  }
  return out;
}

bool has_memory(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kMemory, ignored);
}

class RankReading {
 public:
  RankReading(const fs::path& profile, Texts& texts, const std::vector<std::string>& layers,
              int64_t of)
      : profile_(profile), texts_(texts), layers_(layers), of_(of) {}

  RanksOnPage read() {
    const auto [numbers, more] = ranks_in(profile_, of_);
    RanksOnPage out;
    if (numbers.size() < 2) return out;
    for (const int64_t number : numbers) add_rank(number);
    add_waits();
    Json rows = Json::array(), drawn = Json::array(), lanes = Json::array();
    for (const Rank& rank : ranks_) rows.push_back(row_of(rank));
    const std::set<int64_t> chosen = chosen_ranks();
    for (const int64_t number : chosen) drawn.push_back(drawing_of(number, std::ssize(chosen)));
    for (const std::string& name : lanes_.all()) lanes.push_back(name);
    out.json = {{"rows", rows}, {"lanes", lanes}, {"drawn", drawn}};
    add_notes(more, std::ssize(chosen));
    out.notes = std::move(notes_);
    return out;
  }

 private:
  void add_rank(int64_t number) {
    const fs::path folder = folder_of(profile_, number);
    const SpansOnPage spans = read_spans(folder / kSpans);
    unreadable_ += spans.unreadable;
    left_out_ += spans.left_out;
    calls_left_out_ += spans.calls_left_out;
    const StepTimes step = times_of(spans.measured);
    Rank& rank = ranks_.emplace_back(
        Rank{.number = number, .step = step.end - step.begin, .busy = busy_of(spans.measured)});
    const auto is_compute = [](const auto& lane) { return lane.first == kComputeLane; };
    if (std::ranges::any_of(rank.busy, is_compute)) lanes_.index(kComputeLane);  // comes first
    for (const auto& [lane, seconds] : rank.busy) lanes_.index(lane);
    calls_.add(number, spans.calls);
    if (!has_memory(folder)) return;
    Texts unused;
    const MemoryOnPage memory = read_memory(folder / kMemory, step, unused, layers_, kMostInstants);
    unreadable_ += memory.unreadable;
    left_out_ += memory.left_out;
    if (memory.device_peak > 0) rank.peak = memory.device_peak;
  }

  void add_waits() {
    std::map<int64_t, Waiting> waits = calls_.waits();
    std::map<int64_t, double> caused;
    for (const auto& [rank, waiting] : waits)
      for (const auto& [other, seconds] : waiting.by_rank) caused[other] += seconds;
    for (Rank& rank : ranks_) {
      rank.waits = std::move(waits[rank.number]);
      rank.caused = caused[rank.number];
    }
  }

  std::set<int64_t> chosen_ranks() const {
    std::vector<const Rank*> order;
    for (const Rank& rank : ranks_) order.push_back(&rank);
    std::stable_sort(order.begin() + 1, order.end(),
                     [](const Rank* a, const Rank* b) { return a->caused > b->caused; });
    std::set<int64_t> out;
    for (const Rank* rank : order)
      if (std::ssize(out) < kMostRanksDrawn) out.insert(rank->number);
    return out;
  }

  Json row_of(const Rank& rank) {
    Json lanes = Json::array();
    for (const auto& [lane, seconds] : rank.busy)
      lanes.push_back({lanes_.index(lane), microseconds(seconds)});
    const auto& by_rank = rank.waits.by_rank;
    const auto most = std::ranges::max_element(by_rank, {}, [](const auto& e) { return e.second; });
    return {{"rank", rank.number},
            {"step_us", microseconds(rank.step)},
            {"peak_bytes", or_null(rank.peak)},
            {"lanes", lanes},
            {"waits_us", microseconds(rank.waits.all)},
            {"caused_us", microseconds(rank.caused)},
            {"most_for", most == by_rank.end()
                             ? Json(nullptr)
                             : Json::array({most->first, microseconds(most->second)})}};
  }

  Json drawing_of(int64_t number, int64_t drawn) {
    const fs::path folder = folder_of(profile_, number);
    SpansOnPage spans = read_spans(folder / kSpans);
    const StepTimes step = times_of(spans.measured);
    Json lanes = Json::array();
    const auto add = [&](std::string_view origin, std::vector<ShownSpan>& of) {
      if (!of.empty())
        lanes.push_back(lanes_json(origin, std::move(of), texts_, layers_, kMostSpans / drawn));
    };
    add("predicted", spans.predicted);
    add("measured", spans.measured);
    MemoryOnPage memory;
    if (has_memory(folder))
      memory = read_memory(folder / kMemory, step, texts_, layers_, kMostInstants / drawn);
    return {{"rank", number}, {"lanes", lanes}, {"axes", memory.axes}, {"spaces", memory.spaces}};
  }

  void add_notes(int64_t more, int64_t drawn) {
    if (more > 0)
      notes_.push_back(fmt::format("Of {} ranks that have a profile the first {} are shown",
                                   format_exact(std::ssize(ranks_) + more),
                                   format_exact(std::ssize(ranks_))));
    if (drawn < std::ssize(ranks_))
      notes_.push_back(fmt::format(
          "Of {} ranks {} are drawn: the first, and those that others waited for longest",
          format_exact(std::ssize(ranks_)), format_exact(drawn)));
    if (unreadable_ > 0)
      notes_.push_back(
          fmt::format("{} of the ranks' profiles cannot be read", counted(unreadable_, "line")));
    if (left_out_ > 0)
      notes_.push_back(
          fmt::format("{} of the measured step not drawn", counted(left_out_, "line")));
    if (calls_left_out_ > 0)
      notes_.push_back(fmt::format("{} between ranks not in what they waited",
                                   counted(calls_left_out_, "exchange")));
  }

  const fs::path& profile_;
  Texts& texts_;
  const std::vector<std::string>& layers_;
  const int64_t of_;  // so many ranks
  std::vector<Rank> ranks_;
  Texts lanes_;
  Calls calls_;
  int64_t unreadable_ = 0, left_out_ = 0, calls_left_out_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

RanksOnPage read_ranks(const fs::path& profile, Texts& texts,
                       const std::vector<std::string>& layers, int64_t ranks) {
  return RankReading(profile, texts, layers, ranks).read();
}

}  // namespace snug
