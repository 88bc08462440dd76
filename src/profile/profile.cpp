#include "profile/profile.h"

#include <algorithm>
#include <map>

#include "ir/lifetime.h"
#include "ir/op_def.h"

namespace snug {
namespace {

// Ops that run as one share its time by the bytes that they write.
std::vector<double> shares_of(const Module& module, const Program& program, const Span& span) {
  std::vector<double> shares;
  double all = 0;
  for (int32_t op = span.op; op < span.op + span.ops; ++op) {
    double bytes = 1;
    for (const ValueId id : program.ops[static_cast<size_t>(op)].outputs)
      bytes += static_cast<double>(module[id].type.bytes());
    shares.push_back(bytes);
    all += bytes;
  }
  for (double& share : shares) share /= all;
  return shares;
}

class Adder {
 public:
  explicit Adder(const Module& module) : module_(module) {}

  void add(const std::vector<Span>& spans, double steps, double Seconds::*which) {
    for (const Span& span : spans) add(span, steps, which);
  }

  ProfileSums take() {
    for (auto& [name, kind] : kinds_) sums_.kinds.push_back(std::move(kind));
    const auto time = [](const KindTime& kind) {
      return kind.time.measured > 0 ? kind.time.measured : kind.time.predicted;
    };
    std::ranges::stable_sort(sums_.kinds, std::greater{}, time);
    for (auto& [layer, row] : layers_) sums_.layers.push_back(row);
    return std::move(sums_);
  }

 private:
  void add(const Span& span, double steps, double Seconds::*which) {
    const Program& program = module_.programs[static_cast<size_t>(span.program)];
    const double seconds = span.seconds() / steps;
    auto lane = std::ranges::find(sums_.lanes, span.lane, &LaneTime::lane);
    if (lane == sums_.lanes.end()) lane = sums_.lanes.insert(lane, {.lane = span.lane});
    lane->busy.*which += seconds;
    const Op& first = program.ops[static_cast<size_t>(span.op)];
    KindTime& kind = kinds_[std::string(first.def->kind)];
    kind.kind = first.def->kind;
    kind.time.*which += seconds;
    if (span.origin == SpanOrigin::predicted) kind.calls += span.ops;
    const std::vector<double> shares = shares_of(module_, program, span);
    for (size_t i = 0; i < shares.size(); ++i) {
      const Op& op = program.ops[static_cast<size_t>(span.op) + i];
      const auto phase = static_cast<size_t>(op.phase);
      LayerTime& layer = layers_[op.layer];
      layer.layer = op.layer;
      layer.phases[phase].*which += seconds * shares[i];
      if (op.lane == kComputeLane) sums_.phases[phase].*which += seconds * shares[i];
    }
  }

  const Module& module_;
  ProfileSums sums_;
  std::map<std::string, KindTime> kinds_;
  std::map<int32_t, LayerTime> layers_;
};

}  // namespace

ProfileSums sums_of(const Profile& profile) {
  Adder adder(*profile.module);
  adder.add(profile.predicted, 1, &Seconds::predicted);
  if (profile.steps > 0)
    adder.add(profile.measured, static_cast<double>(profile.steps), &Seconds::measured);
  return adder.take();
}

}  // namespace snug
