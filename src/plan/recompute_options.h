// The ways in which each layer of a model may keep and drop values, and what each costs: measured
// on really compiled programs, many ways in the layers of one compile.
#pragma once

#include <optional>
#include <vector>

#include "passes/passes.h"
#include "plan/layer_kinds.h"
#include "plan/recompute_frontier.h"

namespace snug {

class RecomputeOptions {
 public:
  // `none`: the module that the recipe compiles to without recompute.
  RecomputeOptions(const Module& none, const ForwardBuilder& forward, Recipe recipe,
                   const CostModel& model);

  const LayerOptions& layers() const { return layers_; }

  // A mixture is a list of options from the first layer on. What a uniform policy makes of the
  // layers, or nothing where a part of it was not measured.
  std::optional<std::vector<int>> mixture_of(const RecomputePolicy& uniform) const;
  RecomputePolicy policy_of(const std::vector<int>& mixture) const;

  // The same options in an order that needs no more room and reads better: alike beside alike.
  FrontierPoint tidy(FrontierPoint point) const;

 private:
  // An option for layers of these kinds, one after another.
  struct Way {
    std::vector<int> kinds;
    LayerOption option;
    bool measured = false;
  };

  void want_segments();
  void want_subsets(int kind);
  void measure(const ForwardBuilder& forward, Recipe recipe, const CostModel& model);
  std::vector<int> unmeasured_mixture() const;
  void offer_the_best();
  bool suits(const Way& way, size_t layer) const;
  int find(size_t layer, const LayerOption& like) const;

  size_t kind_at(int32_t layer) const {
    return static_cast<size_t>(kinds_.of_layer[static_cast<size_t>(layer)]);
  }

  LayerKinds kinds_;
  std::vector<double> plain_seconds_;  // by layer, keeping all
  int64_t compiles_ = 0;               // that measuring may take
  std::vector<Way> ways_;
  LayerOptions layers_;  // options: those of ways_, in the same order
};

}  // namespace snug
