#include "passes/recompute_policy.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "ir/op_def.h"
#include "passes/layer_range.h"

namespace snug {
namespace {

constexpr const char* kForms =
    "none, full, every:N, sqrt, ratio:R, attention, list:0,3,5-7, layers:0-8=attn.norm, auto or "
    "auto:BYTES";

std::vector<Segment> parse_list(std::string_view text, std::string_view whole) {
  std::vector<Segment> out;
  for (const std::string& part : split(text, ',')) {
    const auto range = read_layer_range(part);
    if (!range)
      throw usage_error("--recompute '{}': '{}' is not a layer or a range of layers", whole, part);
    out.push_back({range->first, range->last});
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

// Drops what segments make and only they themselves read. Layers in no segment, and the ops outside
// of all layers, count as segments that drop nothing. What enters a segment from another is kept,
// so no segment changes what another one has to repeat. An op at the entrance that can be
// recomputed from one of its own outputs keeps that output instead of the inputs that enter.
class SegmentDropper {
 public:
  SegmentDropper(const Module& module, const Program& program, std::span<const Segment> segments,
                 std::vector<bool>& keep)
      : module_(module), program_(program), segments_(segments), keep_(keep) {
    const auto layers = static_cast<size_t>(layers_in(program));
    for (size_t l = 0; l < layers; ++l) segment_of_layer_.push_back(segments.size() + l);
    outside_ = segments.size() + layers;
    for (size_t s = 0; s < segments.size(); ++s) {
      for (int32_t l = segments[s].first; l <= segments[s].last; ++l) {
        segment_of_layer_[static_cast<size_t>(l)] = s;
      }
    }
  }

  void run() {
    made_in_.assign(module_.values.size(), outside_);
    read_.assign(module_.values.size(), false);
    for (const Op& op : program_.ops) {
      if (op.phase == Phase::forward) continue;
      for (ValueId id : op.inputs) {
        if (id.valid()) read_[index(id)] = true;
      }
    }
    entrance_.assign(module_.values.size(), false);
    for (const Op& op : program_.ops) {
      if (op.phase != Phase::forward) continue;
      for (size_t port = 0; port < op.outputs.size(); ++port) {
        made_in_[index(op.outputs[port])] = segment_of(op);
        if (drops(op, port)) keep_[index(op.outputs[port])] = false;
      }
    }
    for (const Op& op : program_.ops) {
      if (op.phase == Phase::forward) keep_what_enters(op);
    }
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id.index); }

  size_t segment_of(const Op& op) const {
    return op.layer < 0 ? outside_ : segment_of_layer_[static_cast<size_t>(op.layer)];
  }

  // What backward does not read itself is never worth keeping, only to recompute something else.
  bool drops(const Op& op, size_t port) const {
    const size_t segment = segment_of(op);
    if (segment >= segments_.size()) return false;
    const auto& drop = segments_[segment].drop;
    const auto named = [&](const std::string& name) {
      return std::find(drop.begin(), drop.end(), module_.name_in_layer(name, op.layer)) !=
             drop.end();
    };
    const bool origin = op.def->recompute_from_output &&
                        op.def->recompute_from_output->from == static_cast<int>(port);
    const ValueId id = op.outputs[port];
    return drop.empty() || !read_[index(id)] || (!origin && named(op.name)) ||
           named(module_[id].name);
  }

  bool enters(const Op& op, ValueId id) const {
    return id.valid() && !module_[id].shared() && made_in_[index(id)] != segment_of(op) &&
           !entrance_[index(id)];
  }

  void keep_what_enters(const Op& op) {
    std::vector<ValueId> entering;
    std::copy_if(op.inputs.begin(), op.inputs.end(), std::back_inserter(entering),
                 [&](ValueId id) { return enters(op, id); });
    if (entering.empty()) return;
    if (op.def->recompute_from_output)
      entering = {op.outputs[static_cast<size_t>(op.def->recompute_from_output->from)]};
    for (ValueId id : entering) keep_[index(id)] = entrance_[index(id)] = true;
  }

  const Module& module_;
  const Program& program_;
  std::span<const Segment> segments_;
  std::vector<bool>& keep_;
  size_t outside_ = 0;                    // the segment of ops in no layer
  std::vector<size_t> segment_of_layer_;  // beyond segments_: one that drops nothing
  std::vector<size_t> made_in_;           // by value id
  std::vector<bool> read_;                // by value id: does a backward op read it?
  std::vector<bool> entrance_;            // by value id: kept because a segment begins with it
};

// "0-3" of the layers 0 to 3, "5" of a single one.
std::string range_text(int32_t first, int32_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

// Neighbours that are treated alike make one phrase.
std::string text_of_chosen(std::span<const Segment> segments) {
  const auto length = [](const Segment& s) { return s.last - s.first + 1; };
  std::vector<std::string> phrases;
  for (size_t i = 0, next = 0; i < segments.size(); i = next) {
    for (next = i + 1; next < segments.size(); ++next) {
      const Segment &a = segments[next - 1], &b = segments[next];
      if (a.drop != b.drop || length(a) != length(b) || a.last + 1 != b.first) break;
    }
    const Segment& s = segments[i];
    const std::string how = !s.drop.empty()  ? "drop " + join(s.drop, ", ")
                            : length(s) == 1 ? "full"
                                             : fmt::format("every:{}", length(s));
    const int32_t last = segments[next - 1].last;
    const char* word = i > 0 ? "" : s.first == last ? "layer " : "layers ";
    phrases.push_back(word + range_text(s.first, last) + " " + how);
  }
  return phrases.empty() ? "none" : join(phrases, "; ");
}

int64_t parse_bytes_of(std::string_view text, std::string_view whole) {
  try {
    return parse_bytes(text);
  } catch (const Error& error) {
    throw usage_error("--recompute '{}': {}", whole, error.what()).hint(error.hint());
  }
}

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
    const std::vector<std::string> words{"auto",    "none",      "full",     "every:N",   "sqrt",
                                         "ratio:R", "attention", "list:...", "auto:BYTES"};
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
      throw usage_error("--recompute ratio:{}: a ratio is between 0 and 1", rest);
    return p;
  }
  if (word == "list") return {.kind = Kind::list, .list = parse_list(rest, text)};
  if (word == "layers") return {.kind = Kind::chosen, .chosen = parse_layers(rest, text)};
  if (word == "auto") return {.kind = Kind::automatic, .bytes = parse_bytes_of(rest, text)};
  const std::vector<std::string> words{"every", "ratio", "list", "layers", "auto"};
  throw usage_error("--recompute '{}' is not {}{}", text, kForms, did_you_mean(word, words));
}

std::string text(const RecomputePolicy& policy) {
  using Kind = RecomputePolicy::Kind;
  switch (policy.kind) {
    case Kind::none:
      return "none";
    case Kind::full:
      return "full";
    case Kind::every:
      return fmt::format("every:{}", policy.every);
    case Kind::sqrt:
      return "sqrt";
    case Kind::ratio:
      return fmt::format("ratio:{}", policy.ratio);
    case Kind::attention:
      return "attention";
    case Kind::list: {
      std::vector<std::string> ranges;
      for (const Segment& s : policy.list) ranges.push_back(range_text(s.first, s.last));
      return "list:" + join(ranges, ",");
    }
    case Kind::automatic:
      return fmt::format("auto:{}", policy.bytes);
    case Kind::chosen:
      return text_of_chosen(policy.chosen);
  }
  return "?";
}

std::string option_text(const RecomputePolicy& policy) {
  if (policy.kind != RecomputePolicy::Kind::chosen) return text(policy);
  return policy.chosen.empty() ? "none" : "layers:" + layers_text(policy.chosen);
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
    case Kind::automatic:
      throw internal_error("--recompute {} has not been chosen yet", text(policy));
    case Kind::chosen:
      if (!policy.chosen.empty() && policy.chosen.back().last >= layers) {
        throw usage_error("--recompute layers names layer {}, but the model has layers 0 to {}",
                          policy.chosen.back().last, layers - 1);
      }
      return policy.chosen;
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
    require_names(ops, module, segments);
    SegmentDropper(module, ops, segments, keep).run();
  }
  return keep;
}

}  // namespace snug
