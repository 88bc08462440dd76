
#include "techniques/recompute/recompute.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>

#include "base/error.h"
#include "ir/op_def.h"

namespace snug {
namespace {

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

void require_names(const Program& program, const Module& module,
                   std::span<const Segment> segments) {
  for (const Segment& segment : segments) {
    if (segment.drop.empty()) continue;
    std::set<std::string_view> names;
    for (const Op& op : program.ops) {
      if (op.phase != Phase::forward || op.layer < segment.first || op.layer > segment.last)
        continue;
      names.insert(module.name_in_layer(op.name, op.layer));
      for (const ValueId id : op.outputs)
        names.insert(module.name_in_layer(module[id].name, op.layer));
    }
    for (const std::string& name : segment.drop) {
      if (names.contains(name)) continue;
      throw usage_error("--recompute layers: layer {} makes nothing called '{}'", segment.first,
                        name)
          .hint("`snug plan --program` shows the names; without the layer's own prefix");
    }
  }
}

}  // namespace

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
