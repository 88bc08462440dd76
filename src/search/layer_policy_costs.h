// The recompute policies that each layer of a model may have, and what each costs: read from
// compiled programs, many policies in the layers of one compile, at a depth that the longest of
// them fits in.
#pragma once

#include <optional>
#include <vector>

#include "search/layer_kinds.h"
#include "search/pareto_frontier.h"
#include "search/variant.h"
#include "settings/recipe.h"

namespace snug {

class LayerPolicyCosts {
 public:
  // The variant's own recompute policy does not matter; nor do its loss, its optimizer and how many
  // micro-batches it has, for they do not change what a layer costs.
  explicit LayerPolicyCosts(const Variant& variant);

  // For the layers between these ends; the caller sets `other_programs`.
  LayerPolicies between(const Costs& before, const Costs& after) const;

  // An assignment is a list of policies from the first layer on. What a uniform policy makes of the
  // layers, or nothing where a part of it was not measured.
  std::optional<std::vector<int>> assignment_of(const RecomputePolicy& uniform) const;
  RecomputePolicy policy_of(const std::vector<int>& assignment) const;

  // The same policies in an order that needs no more bytes and reads better: equal ones adjacent.
  ParetoPoint tidy(const LayerPolicies& layers, const ParetoPoint& point) const;

 private:
  // A policy for layers of these kinds, one after another.
  struct MeasuredPolicy {
    std::vector<int> kinds;
    LayerPolicy policy;
    bool measured = false;
  };

  void want_segments();
  void want_subsets(int kind);
  void measure(const Module& training, Recipe recipe, const CostModel& model);
  std::vector<int> unmeasured_assignment() const;
  void offer_the_best();
  bool suits(const MeasuredPolicy& policy, size_t layer, const std::vector<int>& of_layer) const;
  int find(size_t layer, const LayerPolicy& like) const;

  LayerKinds kinds_;                   // of the model that is measured
  std::vector<int> of_layer_;          // the kind of every layer of the whole
  std::vector<double> plain_seconds_;  // by measured layer, keeping all
  std::vector<MeasuredPolicy> measured_;
  LayerPolicies layers_;  // options: those of measured_, in the same order
};

}  // namespace snug
