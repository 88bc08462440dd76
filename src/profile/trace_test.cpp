// A profile's traces, of predicted spans: deterministic. The one for Perfetto is read field by field, and holds what the
// JSON does; tools/check_profile.py reads it with Perfetto's own classes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cost/step_cost.h"
#include "formats/testing.h"
#include "models/model.h"
#include "placement/plan.h"
#include "profile/memory_timeline.h"
#include "profile/profile.h"
#include "profile/trace_json.h"
#include "profile/trace_perfetto.h"
#include "settings/parse.h"
#include "settings/recipe.h"

namespace snug {
namespace {

using testing::proto_fields;
using testing::ProtoField;

// Weights and state in host memory, moved by lanes of their own.
Plan offloaded_plan() {
  Recipe recipe;
  recipe.offload = parse_setting<Offload>("all", "offload");
  return make_plan("tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 32}), recipe);
}

// Two steps as predicted, with the prediction.
Profile two_steps(const Plan& plan) {
  const CostModel model = nominal_model(Backend::cpu);
  Profile profile{.module = &plan.module, .predicted = predicted_spans(plan.module, model)};
  const double length = step_cost(plan.module, model).step_seconds;
  for (int step = 0; step < 2; ++step)
    for (Span span : profile.predicted) {
      span.step = step;
      span.begin += step * length;
      span.end += step * length;
      profile.measured.push_back(span);
    }
  profile.steps = 2;
  return profile;
}

using Write = std::function<void(std::string_view)>;

nlohmann::json json_trace(const Profile& profile) {
  std::string text;
  write_trace_json(profile, [&](std::string_view piece) { text += piece; });
  return nlohmann::json::parse(text);
}

// What both formats hold, in one form.
struct Slice {
  std::string process, track, name, category;
  int64_t begin = 0, end = 0;
  std::map<std::string, std::string> facts{};

  friend bool operator==(const Slice&, const Slice&) = default;
};
struct Trace {
  std::vector<Slice> slices;
  std::map<uint64_t, std::string> flow_begins, flow_ends;  // the track, by flow
  std::map<std::string, int64_t> peaks;                    // "measured/device memory"
};

Trace read_json(const nlohmann::json& json) {
  Trace out;
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> tracks;
  for (const auto& e : json["traceEvents"]) {
    const std::string kind = e["ph"];
    const int process = e["pid"];
    if (e["name"] == "process_name") processes[process] = e["args"]["name"];
    if (e["name"] == "thread_name") tracks[{process, e["tid"]}] = e["args"]["name"];
    if (kind == "X") {
      Slice& slice = out.slices.emplace_back(Slice{.process = processes.at(process),
                                                   .track = tracks.at({process, e["tid"]}),
                                                   .name = e["name"],
                                                   .category = e["cat"]});
      slice.begin = std::llround(e["ts"].get<double>() * 1000);
      slice.end = slice.begin + std::llround(e["dur"].get<double>() * 1000);
      for (const auto& [name, value] : e["args"].items())
        slice.facts[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    if (kind == "s" || kind == "f") {
      auto& ends = kind == "s" ? out.flow_begins : out.flow_ends;
      EXPECT_TRUE(ends.emplace(e["id"], tracks[{process, e["tid"]}]).second);
    }
    if (kind == "C") {
      int64_t live = 0;
      for (const auto& bytes : e["args"]) live += bytes.get<int64_t>();
      int64_t& peak = out.peaks[processes.at(process) + "/" + e["name"].get<std::string>()];
      peak = std::max(peak, live);
    }
  }
  return out;
}

// The last field of that number; empty where there is none.
ProtoField field_of(std::string_view message, uint64_t number) {
  ProtoField out;
  for (const ProtoField& field : proto_fields(message))
    if (field.number == number) out = field;
  return out;
}

// Numbers of fields are Perfetto's: protos/perfetto/trace/*.proto.
class PerfettoReading {
 public:
  Trace read(std::string_view file) {
    for (const ProtoField& packet : proto_fields(file)) {
      EXPECT_EQ(packet.number, 1U);
      add_packet(packet.bytes);
    }
    EXPECT_TRUE(open_.empty()) << "a slice has no end";
    return std::move(out_);
  }

 private:
  void add_packet(std::string_view packet) {
    EXPECT_EQ(field_of(packet, 10).value, 1U) << "every packet is of the sequence";
    if (const ProtoField track = field_of(packet, 60); track.number != 0) {
      const uint64_t uuid = field_of(track.bytes, 1).value, parent = field_of(track.bytes, 5).value;
      EXPECT_TRUE(parent == 0 || tracks_.contains(parent)) << "a track comes before its parts";
      const bool fresh =
          tracks_.emplace(uuid, std::pair(parent, std::string(field_of(track.bytes, 2).bytes)))
              .second;
      EXPECT_TRUE(fresh);
    }
    for (const ProtoField& names : proto_fields(field_of(packet, 12).bytes)) {
      const auto id = std::pair(names.number, field_of(names.bytes, 1).value);
      EXPECT_TRUE(names_.emplace(id, field_of(names.bytes, 2).bytes).second);
    }
    if (const ProtoField event = field_of(packet, 11); event.number != 0)
      add_event(event.bytes, static_cast<int64_t>(field_of(packet, 8).value));
  }

  std::string path(uint64_t uuid) const {
    const auto& [parent, name] = tracks_.at(uuid);
    return parent == 0 ? name : path(parent) + "/" + name;
  }

  void add_event(std::string_view event, int64_t at) {
    const uint64_t type = field_of(event, 9).value, track = field_of(event, 11).value;
    if (type == 1) {
      EXPECT_TRUE(open_.emplace(track, out_.slices.size()).second) << "overlaps on " << path(track);
      EXPECT_GE(at, ends_[track]) << "overlaps on " << path(track);
      add_slice(event, track, at);
    } else if (type == 2) {
      out_.slices.at(open_.at(track)).end = ends_[track] = at;
      open_.erase(track);
    } else {
      ASSERT_EQ(type, 4U);
      const std::string parent = path(tracks_.at(track).first);
      const auto value = static_cast<int64_t>(field_of(event, 30).value);
      if (tracks_.at(track).second == "all") {
        EXPECT_EQ(value, live_[parent]) << "categories are all of it";
        out_.peaks[parent] = std::max(out_.peaks[parent], value);
      } else {
        live_[parent] += value - std::exchange(counters_[track], value);
      }
    }
  }

  void add_slice(std::string_view event, uint64_t track, int64_t at) {
    const auto& [parent, lane] = tracks_.at(track);
    Slice& slice =
        out_.slices.emplace_back(Slice{.process = tracks_.at(parent).second,
                                       .track = lane,
                                       .name = names_.at({2, field_of(event, 10).value}),
                                       .category = names_.at({1, field_of(event, 3).value}),
                                       .begin = at});
    for (const ProtoField& field : proto_fields(event)) {
      if (field.number == 47 || field.number == 48) {
        auto& ends = field.number == 47 ? out_.flow_begins : out_.flow_ends;
        EXPECT_TRUE(ends.emplace(field.value, lane).second);
      }
      if (field.number != 4) continue;
      std::string& fact = slice.facts[names_.at({3, field_of(field.bytes, 1).value})];
      const ProtoField number = field_of(field.bytes, 4), text = field_of(field.bytes, 17);
      fact = number.number != 0 ? std::to_string(static_cast<int64_t>(number.value))
                                : names_.at({29, text.value});
    }
  }

  Trace out_;
  std::map<uint64_t, std::pair<uint64_t, std::string>> tracks_;  // parent and name
  std::map<std::pair<uint64_t, uint64_t>, std::string> names_;
  std::map<uint64_t, size_t> open_;
  std::map<uint64_t, int64_t> ends_, counters_;
  std::map<std::string, int64_t> live_;
};

std::string perfetto_bytes(const Profile& profile) {
  std::string bytes;
  write_trace_perfetto(profile, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

TEST(Trace, JsonHasLanesFlowsAndCounters) {
  const Plan plan = offloaded_plan();
  const Profile profile = two_steps(plan);
  const auto trace = json_trace(profile);
  std::map<std::pair<int, int>, std::string> tracks;
  std::map<std::pair<int, int>, double> ends;
  std::map<int64_t, int> starts, finishes;
  std::map<int, std::string> processes;
  int64_t spans = 0, most = 0;
  for (const auto& event : trace["traceEvents"]) {
    const std::string kind = event["ph"];
    if (kind == "M" && event["name"] == "process_name")
      processes[event["pid"]] = event["args"]["name"];
    if (kind == "M" && event["name"] == "thread_name")
      tracks[{event["pid"], event["tid"]}] = event["args"]["name"];
    if (kind == "s") ++starts[event["id"]];
    if (kind == "f") ++finishes[event["id"]];
    if (kind == "C" && event["name"] == "device memory") {
      int64_t live = 0;
      for (const auto& bytes : event["args"]) live += bytes.get<int64_t>();
      most = std::max(most, live);
    }
    if (kind != "X") continue;
    ++spans;
    double& end = ends[{event["pid"], event["tid"]}];
    EXPECT_GE(event["ts"].get<double>(), end - 1e-6) << "overlaps on its track";
    end = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{1, "measured"}, {2, "predicted"}}));
  EXPECT_EQ((tracks[{1, 0}]), "programs");
  EXPECT_GT(tracks.size(), 4U) << "two lanes at least, in each process";
  EXPECT_GT(spans, 3 * std::ssize(profile.predicted)) << "and the programs";
  EXPECT_GT(starts.size(), 0U);
  EXPECT_EQ(starts, finishes);
  for (const auto& [id, count] : starts) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(most, memory_timeline(plan.module, Space::device).max_live);
}

TEST(Trace, PerfettoMatchesJson) {
  const Plan plan = offloaded_plan();
  const Profile profile = two_steps(plan);
  const Trace json = read_json(json_trace(profile));
  const Trace read = PerfettoReading().read(perfetto_bytes(profile));
  ASSERT_EQ(read.slices.size(), json.slices.size());
  for (size_t i = 0; i < read.slices.size(); ++i)
    EXPECT_EQ(read.slices[i], json.slices[i]) << i << ": " << json.slices[i].name;
  EXPECT_EQ(read.flow_begins, json.flow_begins);
  EXPECT_EQ(read.flow_ends, json.flow_ends);
  EXPECT_GT(read.flow_ends.size(), 10U);
  EXPECT_EQ(read.peaks, json.peaks);
  EXPECT_EQ(read.peaks.at("measured/device memory"),
            memory_timeline(plan.module, Space::device).max_live);
  EXPECT_EQ(read.slices[0].facts.at("step"), "0");
  EXPECT_EQ(read.slices.back().process, "predicted");
}

// Fields of the packets before the first track: a snapshot of the one clock, and that times are its.
TEST(Trace, PerfettoNamesSourceOfTimes) {
  const Plan plan = offloaded_plan();
  const std::string bytes = perfetto_bytes(two_steps(plan));
  const auto packets = proto_fields(bytes);
  ASSERT_GT(packets.size(), 3U);
  const std::string_view snapshot = field_of(packets[0].bytes, 6).bytes;
  EXPECT_EQ(field_of(snapshot, 2).value, 3U) << "monotonic";
  EXPECT_EQ(field_of(field_of(snapshot, 1).bytes, 1).value, 3U);
  EXPECT_EQ(field_of(packets[1].bytes, 13).value, 1U) << "no names are known before";
  EXPECT_EQ(field_of(field_of(packets[1].bytes, 59).bytes, 58).value, 3U);
  EXPECT_EQ(field_of(field_of(packets[2].bytes, 60).bytes, 2).bytes, "measured");
}

TEST(Trace, NonTextNamesAreReplacedInBoth) {
  Plan plan = offloaded_plan();
  Program& program = plan.module.programs[0];
  program.ops[0].name = "a\"b,\n\x01";
  program.ops[1].name = "\xff!";
  const Profile profile = two_steps(plan);
  const Trace json = read_json(json_trace(profile));
  const Trace read = PerfettoReading().read(perfetto_bytes(profile));
  EXPECT_EQ(read.slices, json.slices);
  const auto named = [&](std::string_view name) {
    return std::ranges::count(read.slices, name, &Slice::name);
  };
  EXPECT_GT(named("a\"b,\n\x01"), 0);
  EXPECT_GT(named("\xEF\xBF\xBD!"), 0);
}

// A trace is written in pieces that do not grow with it, and names are written once.
TEST(Trace, LongTraceIsWrittenInSmallPieces) {
  const Plan plan = offloaded_plan();
  Profile profile = two_steps(plan);
  const size_t step = profile.predicted.size(), once = perfetto_bytes(profile).size();
  profile.measured.resize(0);
  for (int32_t at = 0; profile.measured.size() < 40'000; ++at)
    for (size_t i = 0; i < step; ++i) {
      profile.measured.push_back(profile.predicted[i]);
      profile.measured.back().step = at;
    }
  size_t largest = 0, all = 0;
  const auto write = [&](std::string_view piece) {
    largest = std::max(largest, piece.size());
    all += piece.size();
  };
  write_trace_perfetto(profile, write);
  EXPECT_LT(largest, 4096U);
  EXPECT_LT(all, once / 3 * (profile.measured.size() / step)) << "a third and names, once";
  largest = 0;
  write_trace_json(profile, write);
  EXPECT_LT(largest, 4096U);
}

}  // namespace
}  // namespace snug
