// The ways in which each layer of a model may keep and drop values, and what each costs: measured
// on really compiled programs, many ways in the layers of one compile, at a depth that has room for
// the longest of them.
#pragma once

#include <optional>
#include <vector>

#include "passes/passes.h"
#include "plan/layer_kinds.h"
#include "plan/recompute_frontier.h"
#include "plan/variant.h"

namespace snug {

class RecomputeOptions {
 public:
  // The variant's own recompute policy does not matter; nor do its loss, its optimizer and how many
  // micro-batches it has, for they do not change what a layer costs.
  explicit RecomputeOptions(const Variant& variant);

  // For the layers between these ends; `elsewhere` is left to whoever knows it.
  LayerOptions between(const Costs& before, const Costs& after) const;

  // A mixture is a list of options from the first layer on. What a uniform policy makes of the
  // layers, or nothing where a part of it was not measured.
  std::optional<std::vector<int>> mixture_of(const RecomputePolicy& uniform) const;
  RecomputePolicy policy_of(const std::vector<int>& mixture) const;

  // The same options in an order that needs no more room and reads better: alike beside alike.
  FrontierPoint tidy(const LayerOptions& layers, FrontierPoint point) const;

 private:
  // An option for layers of these kinds, one after another.
  struct Way {
    std::vector<int> kinds;
    LayerOption option;
    bool measured = false;
  };

  void want_segments();
  void want_subsets(int kind);
  void measure(const Module& learning, Recipe recipe, const CostModel& model);
  std::vector<int> unmeasured_mixture() const;
  void offer_the_best();
  bool suits(const Way& way, size_t layer, const std::vector<int>& of_layer) const;
  int find(size_t layer, const LayerOption& like) const;

  LayerKinds kinds_;                   // of the model that is measured
  std::vector<int> of_layer_;          // the kind of every layer of the whole
  std::vector<double> plain_seconds_;  // by measured layer, keeping all
  std::vector<Way> ways_;
  LayerOptions layers_;  // options: those of ways_, in the same order
};

}  // namespace snug
