#include "ops/registry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/split_check.h"

namespace snug::ops {

TEST(Registry, KindsAreUniqueAndFound) {
  std::set<std::string_view> kinds;
  for (const OpDef* def : registry()) {
    EXPECT_FALSE(def->kind.empty());
    EXPECT_TRUE(kinds.insert(def->kind).second) << def->kind << " is in the list twice";
    EXPECT_EQ(find_op(registry(), def->kind), def);
  }
  EXPECT_EQ(find_op(registry(), "no_such_op"), nullptr);
}

TEST(Registry, EveryOpHasAShapeRule) {
  for (const OpDef* def : registry()) EXPECT_NE(def->infer, nullptr) << def->kind;
}

TEST(Registry, EveryKernelHasReferenceAndSample) {
  std::set<std::string> reached;
  for (const OpDef* def : registry()) reached.merge(kinds_reached(*def));
  for (const OpDef* def : registry()) {
    if (def->kernels.empty()) continue;
    EXPECT_NE(def->reference, nullptr) << def->kind;
    EXPECT_TRUE(reached.contains(std::string(def->kind))) << def->kind << " is run by no sample";
  }
}

// Of every sample in each of the types that models compute in, where the op's rules take it.
template <typename Fn>
void for_each_sample_program(const Fn& fn) {
  for (const OpDef* def : registry()) {
    if (def->samples == nullptr) continue;
    for (const Sample& sample : def->samples()) {
      for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        OpCase c;
        if (refusal_of([&] { c = build_program(*def, in_dtype(*def, sample, dtype)); }).empty())
          fn(c);
      }
    }
  }
}

TEST(Registry, EveryKernelIsReachedInItsType) {
  std::set<std::pair<std::string_view, Dtype>> reached;
  for_each_sample_program([&](const OpCase& c) {
    for (const Op& op : c.program().ops) reached.emplace(op.def->kind, kernel_dtype(c.module, op));
  });
  for (const OpDef* def : registry()) {
    for (const Kernel& k : def->kernels) {
      EXPECT_TRUE(reached.contains({def->kind, k.dtype}))
          << def->kind << " in " << name_of(k.dtype) << " is run by no sample";
    }
  }
}

// check_op cuts where it can; here every declared axis is one that it can cut.
TEST(Registry, EveryDeclaredSplitIsCutInSomeSample) {
  std::set<std::string> cut;
  for_each_sample_program([&](const OpCase& c) { cut.merge(splits_cut(c)); });
  for (const OpDef* def : registry()) {
    for (const Split& split : def->splits) {
      EXPECT_TRUE(cut.contains(fmt::format("{} {}", def->kind, split.axis)))
          << def->kind << " along " << split.axis;
    }
  }
}

TEST(Registry, EveryOpOfSamplesIsListed) {
  for (const OpDef* def : registry()) {
    for (const std::string& kind : kinds_reached(*def)) {
      EXPECT_NE(find_op(registry(), kind), nullptr) << kind << ", which " << def->kind << " emits";
    }
  }
}

TEST(Registry, FactsNameExistingPorts) {
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

// The table has its rows in builds without CUDA too. Copies between spaces and ranks are the
// device's and the communicator's work, not a kernel's.
TEST(Registry, CudaHasEveryCpuKernel) {
  for (const OpDef* def : registry()) {
    if (def->crosses_spaces || def->comm != Comm::none) continue;
    for (const Kernel& k : def->kernels) {
      if (k.backend != Backend::cpu) continue;
      EXPECT_NE(def->kernel(Backend::cuda, k.dtype), nullptr)
          << def->kind << " has no CUDA kernel for " << name_of(k.dtype);
    }
  }
}

TEST(Registry, RecomputedOutputsHaveTheirPorts) {
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
