#include "passes/recompute_policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "ir/op_def.h"

namespace snug {
namespace {

constexpr const char* kForms = "none, full, every:N, sqrt, ratio:R, attention or list:0,3,5-7";

template <typename T>
bool read_number(std::string_view text, T& out) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failure == std::errc{} && end == text.data() + text.size();
}

std::vector<Segment> parse_list(std::string_view text, std::string_view whole) {
  std::vector<Segment> out;
  for (const std::string& part : split(text, ',')) {
    const auto ends = split(part, '-');
    int32_t first = 0;
    int32_t last = 0;
    if (ends.size() > 2 || !read_number(ends.front(), first) || !read_number(ends.back(), last) ||
        first < 0 || last < first) {
      throw usage_error("--recompute '{}': '{}' is not a layer or a range of layers", whole, part);
    }
    out.push_back({first, last});
  }
  return out;
}

// Consecutive segments of n layers; the last may be shorter.
std::vector<Segment> cut(int32_t layers, int64_t n) {
  std::vector<Segment> out;
  for (int64_t first = 0; first < layers; first += n) {
    out.push_back({static_cast<int32_t>(first),
                   static_cast<int32_t>(std::min<int64_t>(first + n, layers) - 1)});
  }
  return out;
}

int32_t layers_in(const Program& program) {
  int32_t layers = 0;
  for (const Op& op : program.ops) layers = std::max(layers, op.layer + 1);
  return layers;
}

// Keeps all but what selective ops make.
void drop_large_outputs(const Program& program, std::vector<bool>& keep) {
  for (const Op& op : program.ops) {
    if (op.phase != Phase::forward || !op.def->selective) continue;
    for (ValueId id : op.outputs) keep[static_cast<size_t>(id.index)] = false;
  }
}

// Drops what a segment makes and only the segment itself reads. An op at its entrance that can be
// re-derived from one of its own outputs keeps that output instead of the inputs that come from
// outside.
class SegmentDropper {
 public:
  SegmentDropper(const Module& module, const Program& program, std::span<const Segment> segments,
                 std::vector<bool>& keep)
      : module_(module),
        program_(program),
        keep_(keep),
        segment_of_layer_(static_cast<size_t>(layers_in(program)), -1) {
    for (size_t s = 0; s < segments.size(); ++s) {
      for (int32_t l = segments[s].first; l <= segments[s].last; ++l) {
        segment_of_layer_[static_cast<size_t>(l)] = static_cast<int>(s);
      }
    }
  }

  void run() {
    made_in_.assign(module_.values.size(), kNowhere);
    for (const Op& op : program_.ops) {
      if (op.phase != Phase::forward) continue;
      for (ValueId id : op.outputs) {
        made_in_[static_cast<size_t>(id.index)] = segment_of(op);
        if (segment_of(op) >= 0) keep_[static_cast<size_t>(id.index)] = false;
      }
    }
    for (const Op& op : program_.ops) {
      if (op.phase == Phase::forward) keep_what_enters(op);
    }
  }

 private:
  static constexpr int kNowhere = -1;  // outside every segment

  int segment_of(const Op& op) const {
    return op.layer < 0 ? kNowhere : segment_of_layer_[static_cast<size_t>(op.layer)];
  }
  bool enters(const Op& op, ValueId id) const {
    return id.valid() && !module_[id].shared() &&
           made_in_[static_cast<size_t>(id.index)] != segment_of(op);
  }

  void keep_what_enters(const Op& op) {
    if (segment_of(op) == kNowhere) return;  // never repeated, so its inputs are needed only now
    const bool entrance =
        std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return enters(op, id); });
    if (!entrance) return;
    if (op.def->rederive) {
      keep_[static_cast<size_t>(op.outputs[static_cast<size_t>(op.def->rederive->from)].index)] =
          true;
      return;
    }
    for (ValueId id : op.inputs) {
      if (enters(op, id)) keep_[static_cast<size_t>(id.index)] = true;
    }
  }

  const Module& module_;
  const Program& program_;
  std::vector<bool>& keep_;
  std::vector<int> segment_of_layer_;
  std::vector<int> made_in_;  // by value id
};

}  // namespace

RecomputePolicy parse_recompute(std::string_view text) {
  using Kind = RecomputePolicy::Kind;
  const size_t colon = text.find(':');
  const std::string_view word = text.substr(0, colon);
  const bool has_rest = colon != std::string_view::npos;
  const std::string_view rest = has_rest ? text.substr(colon + 1) : "";
  auto wrong = [&] { return usage_error("--recompute '{}' is not {}", text, kForms); };

  RecomputePolicy p;
  if (!has_rest) {
    if (word == "none") return p;
    if (word == "full") return {.kind = Kind::full};
    if (word == "sqrt") return {.kind = Kind::sqrt};
    if (word == "attention") return {.kind = Kind::attention};
    const std::vector<std::string> words{"none",    "full",      "every:N", "sqrt",
                                         "ratio:R", "attention", "list:..."};
    throw usage_error("--recompute '{}' is not {}{}", text, kForms, did_you_mean(text, words));
  }
  if (word == "every") {
    p.kind = Kind::every;
    if (!read_number(rest, p.every)) throw wrong();
    if (p.every < 1)
      throw usage_error("--recompute every:{}: a segment has at least one layer", p.every);
    return p;
  }
  if (word == "ratio") {
    p.kind = Kind::ratio;
    if (!read_number(rest, p.ratio)) throw wrong();
    if (!(p.ratio >= 0 && p.ratio <= 1))
      throw usage_error("--recompute ratio:{}: a ratio lies between 0 and 1", rest);
    return p;
  }
  if (word == "list") return {.kind = Kind::list, .list = parse_list(rest, text)};
  throw wrong();
}

std::vector<Segment> segments_of(const RecomputePolicy& policy, int32_t layers) {
  using Kind = RecomputePolicy::Kind;
  switch (policy.kind) {
    case Kind::none:
    case Kind::attention:
      return {};
    case Kind::full:
      return cut(layers, 1);
    case Kind::every:
      return cut(layers, policy.every);
    case Kind::sqrt:
      return cut(layers, static_cast<int64_t>(std::ceil(std::sqrt(layers))));
    case Kind::ratio:
      return cut(static_cast<int32_t>(std::ceil(policy.ratio * layers)), 1);
    case Kind::list:
      break;
  }
  std::vector<Segment> out;
  for (const Segment& range : policy.list) {
    if (range.last >= layers) {
      throw usage_error("--recompute list names layer {}, but the model has layers 0 to {}",
                        range.last, layers - 1);
    }
    for (int32_t layer = range.first; layer <= range.last; ++layer) out.push_back({layer, layer});
  }
  return out;
}

std::vector<bool> values_to_keep(const Module& module, std::string_view program,
                                 const RecomputePolicy& policy) {
  const Program& ops = module.program(program);
  std::vector<bool> keep(module.values.size(), true);
  if (policy.kind == RecomputePolicy::Kind::attention) {
    drop_large_outputs(ops, keep);
  } else {
    const auto segments = segments_of(policy, layers_in(ops));
    SegmentDropper(module, ops, segments, keep).run();
  }
  return keep;
}

}  // namespace snug
