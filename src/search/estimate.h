// What a step costs that recomputes nothing, or everything where that is pinned, without compiling all of it: read from a model of
// three layers and, because it is made of few ops, the whole update.
//
//   Estimates estimates;   Estimate s = estimates.of(variant);   s.persistent + s.transient;
//   s.seconds
//
// Exact in bytes that live on the device (placement may leave gaps); of transient bytes in other spaces a
// guess: for each layer more what the fourth keeps there. Seconds are exact on one lane. On several they are the largest sum of a lane and
// what the lanes of a few layers wait for each other, as their simulation says.
#pragma once

#include <algorithm>

#include "base/memo.h"
#include "ir/order.h"
#include "ir/space_bytes.h"
#include "search/layer_costs.h"
#include "search/room.h"
#include "search/variant.h"

namespace snug {

struct Estimate {
  SpaceBytes persistent;       // bytes of shared values: local ones begin here
  SpaceBytes transient;        // the most bytes of local values at an instant
  SpaceBytes least_transient;  // however much is recomputed: some op's operands
  double seconds = 0;          // of a step
  double compute_seconds = 0;  // of these, what the compute lane is busy, and other programs take
  double other_lanes = 0;      // the same of the longest of the other lanes; 0: there are none
  double waiting = 0;          // beyond the longer of the two: lanes wait for each other
  double least_seconds = 0;    // however little is recomputed or compressed
  Costs before, layer, after;  // of one micro-batch; layer: one in the middle
  double update_seconds = 0;   // of these, the update's, where it is a program of its own
  double forward_seconds = 0;  // in a step, of that layer: what recomputing all of it takes
  int64_t other_programs = 0;  // transient that other programs need, on the device

  // Of a step that computes so much more, or less.
  double seconds_with(double more_compute) const {
    return std::max(compute_seconds + more_compute, other_lanes) + waiting;
  }
  SpaceBytes arena() const { return persistent + transient; }
  SpaceBytes least_arena() const { return persistent + least_transient; }
};

// Of two variants of the same micro-batch and type: is `a` at least as good as `b` in everything
// that a choice of what to recompute is made of? Whatever `b` does, `a` then does as well.
bool no_worse(const Estimate& a, const Estimate& b);

// Caches what variants have in common. May be asked by several threads.
class Estimates {
 public:
  Estimate of(const Variant& variant);

  // The whole step with this policy, but for the update as a program of its own, which no policy
  // changes: what it takes is known. Not placed, so gaps are left out.
  struct Trial {
    SpaceBytes arena;
    double seconds = 0;
  };
  Trial trial(Variant variant, const RecomputePolicy& policy);

  // What may be offloaded, in all layers.
  Room room_of(Variant variant);

 private:
  struct Update {
    SpaceBytes shared;  // bytes that it adds: masters, state
    SpaceBytes transient;
    double seconds = 0;
    Room room;
  };

  // As a program of its own, also where it is folded into forward.
  const Update& update_of(const Variant& variant);
  const Estimate& body_of(const Variant& variant);  // all but the update
  Estimate make_body(const Variant& variant);
  Estimate part_of_body(const Variant& variant);
  Trial make_trial(const Variant& variant);

  // A step of so many layers, and in which order its ops run.
  struct LaidOut {
    Module module;
    Orders orders;
  };
  LaidOut laid_out(const Variant& variant, int32_t layers);

  struct Lanes {
    double seconds = 0;    // that they take for a step
    SpaceBytes transient;  // the most that is live at an instant
  };
  Lanes lanes_of(const Variant& variant, const LaidOut& shallow, int32_t depth);

  struct Beginning {
    Settings settings;
    bool weights_first = false;
    int32_t layers = 0;

    struct Hash {
      size_t operator()(const Beginning& b) const {
        return std::hash<Settings>{}(b.settings) +
               static_cast<size_t>(2 * b.layers + b.weights_first);
      }
    };
    friend bool operator==(const Beginning&, const Beginning&) = default;
  };
  const Module& beginning_of(const Variant& variant, int32_t layers);
  const Module& parameters_of(const Variant& variant);

  Memo<Settings, Estimate> bodies_;
  Memo<Settings, Update> updates_;
  Memo<Settings, Trial> trials_;
  Memo<Beginning, Module, Beginning::Hash> beginnings_;
  Memo<Settings, Module> parameters_;  // of the whole model, with gradients and no op
};

}  // namespace snug
