#include "ops/registry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ops/testing/op_check.h"

namespace snug::ops {

TEST(Registry, KindsAreUniqueAndFound) {
  std::set<std::string_view> kinds;
  for (const OpDef* def : registry()) {
    EXPECT_FALSE(def->kind.empty());
    EXPECT_TRUE(kinds.insert(def->kind).second) << def->kind << " stands in the list twice";
    EXPECT_EQ(find_op(registry(), def->kind), def);
  }
  EXPECT_EQ(find_op(registry(), "no_such_op"), nullptr);
}

TEST(Registry, EveryOpHasAShapeRule) {
  for (const OpDef* def : registry()) EXPECT_NE(def->infer, nullptr) << def->kind;
}

TEST(Registry, EveryKernelHasAReferenceAndIsReachedByASample) {
  std::set<std::string> reached;
  for (const OpDef* def : registry()) reached.merge(kinds_reached(*def));
  for (const OpDef* def : registry()) {
    if (def->kernels.empty()) continue;
    EXPECT_NE(def->reference, nullptr) << def->kind;
    EXPECT_TRUE(reached.contains(std::string(def->kind))) << def->kind << " is run by no sample";
  }
}

TEST(Registry, EveryOpThatSamplesReachStandsInTheList) {
  for (const OpDef* def : registry()) {
    for (const std::string& kind : kinds_reached(*def)) {
      EXPECT_NE(find_op(registry(), kind), nullptr) << kind << ", which " << def->kind << " emits";
    }
  }
}

TEST(Registry, FactsNamePortsThatExist) {
  for (const OpDef* def : registry()) {
    auto in_range = [](int port, size_t ports) {
      return port >= 0 && port < static_cast<int>(ports);
    };
    for (const Alias& a : def->alias) {
      EXPECT_TRUE(in_range(a.input, def->inputs.size())) << def->kind;
      EXPECT_TRUE(in_range(a.output, def->outputs.size())) << def->kind;
    }
    for (const Accumulate& a : def->accumulate) {
      ASSERT_TRUE(in_range(a.input, def->inputs.size())) << def->kind;
      EXPECT_TRUE(def->inputs[static_cast<size_t>(a.input)].optional()) << def->kind;
      EXPECT_TRUE(in_range(a.output, def->outputs.size())) << def->kind;
    }
    for (int port : def->exact) EXPECT_TRUE(in_range(port, def->inputs.size())) << def->kind;
    for (const Split& s : def->splits) {
      EXPECT_EQ(s.inputs.size(), def->inputs.size()) << def->kind << " split " << s.axis;
      EXPECT_EQ(s.outputs.size(), def->outputs.size()) << def->kind << " split " << s.axis;
    }
  }
}

// Rows of the table stand there in builds without CUDA too. Copies between spaces and ranks are the
// device's and the communicator's work, not a kernel's.
TEST(Registry, CudaHasAKernelWhereverTheCpuHasOne) {
  for (const OpDef* def : registry()) {
    if (def->crosses_spaces || def->comm != Comm::none) continue;
    for (const Kernel& k : def->kernels) {
      if (k.backend != Backend::cpu) continue;
      EXPECT_NE(def->kernel(Backend::cuda, k.dtype), nullptr)
          << def->kind << " has no CUDA kernel for " << name_of(k.dtype);
    }
  }
}

TEST(Registry, WhatMakesAnOutputAgainHasThePortsForIt) {
  for (const OpDef* def : registry()) {
    if (!def->fused_recompute) continue;
    const FusedRecompute& r = *def->fused_recompute;
    const auto exists = [](int port, const std::vector<Port>& ports) {
      return port >= 0 && port < static_cast<int>(ports.size());
    };
    EXPECT_EQ(find_op(registry(), r.grad->kind), r.grad) << def->kind;
    EXPECT_EQ(find_op(registry(), r.with->kind), r.with) << def->kind;
    EXPECT_TRUE(exists(r.output, def->outputs)) << def->kind;
    EXPECT_TRUE(exists(r.recomputed, r.with->outputs)) << r.with->kind;
    for (const int port : r.inputs) EXPECT_TRUE(exists(port, def->inputs)) << def->kind;
    EXPECT_EQ(r.with->inputs.size(), r.grad->inputs.size() + r.inputs.size()) << r.with->kind;
    EXPECT_EQ(r.with->outputs.size(), r.grad->outputs.size() + 1) << r.with->kind;
  }
}

}  // namespace snug::ops
