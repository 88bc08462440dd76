#include "techniques/host_update/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "passes/testing/two_layers.h"
#include "settings/parse.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

template <typename Fn>
std::string why_no_host_update(const Fn& fn) {
  try {
    fn();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return std::string(e.what()) + "; " + e.hint();
  }
  return "taken";
}

TEST(ParseHostUpdate, PrintedTextReadsBack) {
  for (const char* option : {"none", "all", "0-11+15", "3"})
    EXPECT_EQ(text(parse_setting<HostUpdate>(option, "host-update")), option);
  EXPECT_EQ(text(parse_setting<HostUpdate>("3+0-1+2", "host-update")), "0-3");
  EXPECT_FALSE(parse_setting<HostUpdate>("none", "host-update").covers(0));
  EXPECT_TRUE(parse_setting<HostUpdate>("all", "host-update").covers(kNoLayer));
  EXPECT_TRUE(parse_setting<HostUpdate>("0-3", "host-update").covers(3));
  EXPECT_FALSE(parse_setting<HostUpdate>("0-3", "host-update").covers(4));
  EXPECT_FALSE(parse_setting<HostUpdate>("0-3", "host-update").covers(kNoLayer));
  EXPECT_THAT(why_no_host_update([] { parse_setting<HostUpdate>("some", "host-update"); }),
              HasSubstr("--host-update 'some': 'some' is not a layer"));
}

TEST(RequireHostUpdate, RefusesStateOutsideHost) {
  const auto refused = [](const char* offload, const char* update, Recipe recipe = {}) {
    recipe.offload = parse_setting<Offload>(offload, "offload");
    recipe.host_update = parse_setting<HostUpdate>(update, "host-update");
    return why_no_host_update([&] { require_host_update(recipe, /*layers=*/4); });
  };
  const Recipe bf16{.precision = Dtype::bf16};
  EXPECT_EQ(refused("none", "none"), "taken");
  EXPECT_EQ(refused("optimizer", "all"), "taken");
  EXPECT_EQ(refused("optimizer@1", "all"), "taken") << "the device updates the other layers";
  EXPECT_EQ(refused("optimizer@1-2", "1"), "taken");
  EXPECT_EQ(refused("optimizer,master", "all", bf16), "taken");
  EXPECT_THAT(refused("none", "all"), HasSubstr("no layer has all of its optimizer's state"));
  EXPECT_THAT(refused("optimizer", "all", bf16),
              HasSubstr("--offload optimizer,master moves it there"));
  EXPECT_THAT(refused("optimizer@1", "0-1"),
              HasSubstr("'optimizer' of layer 0 is on the device, not in host memory; --offload "
                        "optimizer@0-1"));
  EXPECT_THAT(refused("optimizer=disk", "0-1"),
              HasSubstr("'optimizer' of layer 0 is on disk, not in host memory; --offload "
                        "optimizer@0-1"));
  EXPECT_THAT(refused("optimizer=disk", "all"), HasSubstr("no layer has all of its"));
  EXPECT_THAT(refused("optimizer,grads@1=disk", "0-1"),
              HasSubstr("'grads' of layer 1 is on disk, not in host memory; --offload "
                        "optimizer@0-1,grads@0-1 moves it there"));
  EXPECT_THAT(refused("optimizer,params=disk", "all"),
              HasSubstr("no gradient or parameter on disk; --offload optimizer,params moves"));
  EXPECT_EQ(refused("optimizer,grads@1=disk", "all"), "taken") << "the device updates layer 1";
  EXPECT_THAT(refused("optimizer,master@0", "0-1", bf16), HasSubstr("'master' of layer 1"));
  EXPECT_THAT(refused("optimizer", "4"), HasSubstr("layer 4, but the model has 4"));
  Recipe plain{.optimizer = OptimizerKind::sgd, .momentum = 0};
  EXPECT_THAT(refused("optimizer", "all", plain), HasSubstr("sgd without momentum"));
  plain.precision = Dtype::bf16;
  EXPECT_EQ(refused("master", "all", plain), "taken") << "its masters are updated there";
}

// --- the pass ------------------------------------------------------------------------------------

Module with_host_update(const char* offload, const char* update, Recipe recipe = {}) {
  recipe.offload = parse_setting<Offload>(offload, "offload");
  recipe.host_update = parse_setting<HostUpdate>(update, "host-update");
  return compile("two layers", two_linears, recipe);
}

std::vector<std::string> names_on(const Program& program, std::string_view lane) {
  std::vector<std::string> names;
  for (const Op& op : program.ops)
    if (op.lane == lane) names.push_back(op.name);
  return names;
}

TEST(UpdateOnHost, UsesStateInPlace) {
  const Module module = with_host_update("optimizer,master", "all", {.precision = Dtype::bf16});
  const Program& update = module.program("update");
  const Op& one = find(update, "update.1.weight");
  EXPECT_EQ(one.lane, "host_compute");
  for (const char* state : {"1.weight", "1.weight.m", "1.weight.v"}) {
    EXPECT_THAT(one.inputs, ::testing::Contains(module.find_shared(state)));
    EXPECT_EQ(module[module.find_shared(state)].space, Space::host);
  }
  // What goes between the memories: a gradient for each, its weight, and five scalars once.
  EXPECT_THAT(names_on(update, "copy_out"),
              ::testing::UnorderedElementsAre(
                  "grad.0.weight.to_host", "grad.0.bias.to_host", "grad.1.norm.to_host",
                  "grad.1.weight.to_host", "lr.to_host", "updates.next.to_host",
                  "norm.clip.scale.to_host", "norm.clip.finite.to_host"));
  EXPECT_THAT(names_on(update, "copy_in"), ::testing::SizeIs(4));
  EXPECT_THAT(names_on(update, "copy_in"), ::testing::Contains("update.1.weight.weight.to_device"));
  expect_sound(module);
}

TEST(UpdateOnHost, PrefetchesNoHostValues) {
  const Module module = with_host_update("all", "all", {.precision = Dtype::bf16});
  const Program& update = module.program("update");
  EXPECT_THAT(names_on(update, "copy_in"), ::testing::IsEmpty());
  for (const std::string& name : names_on(update, "copy_out"))
    EXPECT_THAT(name, ::testing::Not(HasSubstr("grad"))) << "only scalars";
  expect_sound(module);
}

TEST(UpdateOnHost, LeavesOtherLayersOnTheDevice) {
  const Module module = with_host_update("optimizer", "1");
  const Program& update = module.program("update");
  EXPECT_EQ(find(update, "update.1.weight").lane, "host_compute");
  EXPECT_EQ(find(update, "update.0.weight").lane, "compute");
  EXPECT_THAT(names_on(update, "copy_in"), ::testing::Contains("0.weight.m.fetch"));
  expect_sound(module);
}

TEST(UpdateOnHost, DiskStateIsUpdatedOnDevice) {
  for (const char* offload :
       {"optimizer,grads@1=disk", "optimizer,params@1=disk", "optimizer,optimizer@1=disk"}) {
    const Module module = with_host_update(offload, "all");
    const Program& update = module.program("update");
    EXPECT_EQ(find(update, "update.0.weight").lane, "host_compute") << offload;
    EXPECT_EQ(find(update, "update.1.weight").lane, "compute") << offload;
    expect_sound(module);
  }
}

TEST(UpdateOnHost, HasScratchOfHostOp) {
  const Recipe recipe{.optimizer = OptimizerKind::adam_mini, .backend = Backend::cuda};
  const Module module = with_host_update("optimizer", "1", recipe);
  const auto scratch = [&](const char* op, Backend backend) {
    const Op& one = find(module.program("update"), op);
    EXPECT_EQ(module[one.workspace].storage_bytes(), cost_of(module, one, backend).workspace) << op;
    EXPECT_EQ(module[one.workspace].space, space_of(module, one)) << op;
  };
  scratch("update.1.weight", Backend::cpu);
  scratch("update.0.weight", Backend::cuda);
  EXPECT_NO_THROW(verify(module, Backend::cuda));
}

TEST(UpdateOnHost, ParameterWithoutMasterIsCopiedBothWays) {
  const Module module = with_host_update("optimizer", "all");
  const Program& update = module.program("update");
  EXPECT_THAT(names_on(update, "copy_out"), ::testing::Contains("1.weight.to_host"));
  EXPECT_EQ(module.root(find(update, "update.1.weight.param.to_device").outputs[0]),
            module.find_shared("1.weight"));
  expect_sound(module);
}

TEST(UpdateOnHost, RunsInBackwardAndNextForward) {
  const Recipe in_backward{.update_in_backward = true, .clip = 0};
  for (const char* offload : {"optimizer", "optimizer,grads", "all"}) {
    for (const int64_t accum : {1, 2}) {
      Recipe recipe = in_backward;
      recipe.accum = accum;
      const Module module = with_host_update(offload, "all", recipe);
      const char* last = accum == 1 ? "micro_first" : "micro_last";
      EXPECT_THAT(names_on(module.program(last), "host_compute"), ::testing::SizeIs(4)) << offload;
      expect_sound(module);
      const Module folded = with_host_update(offload, "all", {.accum = accum, .fold_update = true});
      for (const char* program : {"micro_first", "flush"})
        EXPECT_THAT(names_on(folded.program(program), "host_compute"), ::testing::SizeIs(4));
      expect_sound(folded);
      recipe.sums_apart = true;
      expect_sound(with_host_update(offload, "all", recipe));
    }
  }
}

}  // namespace
}  // namespace snug
