// Plans to the last bit: what is chosen, its bytes and its modelled time are the same whatever the
// instruction set, the optimisation and the sanitizers of a build (-ffp-contract=off, CMakeLists.txt).
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "golden/golden.h"
#include "search/meshes/mesh_search.h"
#include "settings/testing/with_flags.h"

namespace snug {
namespace {

constexpr const char* kPlans[] = {
    // One device, with all given and with some left to the search.
    "gpt2 --gpu rtx4090 --batch 2 --seq 256 --recompute every:2 --attention standard --loss whole "
    "--offload none",
    "gpt2 --gpu a10 --batch 4 --seq 256 --budget 2200MiB --offload none",
    "gemma3-1b:576x6 --gpu l4 --batch 4 --seq 256 --budget 3GiB --allow all --offload none",
    // Values outside the device, and updates on the host.
    "llama-7b:512x8 --gpu rtx3090 --batch 2 --seq 256 --recompute full --accum 2 --offload "
    "optimizer,master,grads --host-update 0-3 --micro-order vertical",
    "gpt2 --gpu h200 --batch 8 --seq 256 --budget 2GiB",
    // Adapters.
    "qwen3-0.6b:512x4 --gpu rtx4090 --batch 4 --seq 256 --lora r=8,targets=qkvo --base-dtype nf4 "
    "--budget 1GiB --offload none",
    // Several ranks: sharded state, groups, stages, parts of matrices, and a mesh that is searched.
    "gpt2 --gpu h100x8 --mesh dp=8 --batch 2 --seq 256 --zero 3 --recompute ratio:0.5 --offload "
    "none",
    "gpt2 --gpu a100-40x16 --batch 2 --seq 256 --mesh dp=16 --shard hybrid:8 --recompute none "
    "--offload none",
    "llama-7b:512x8 --gpu a100-80x4 --mesh pp=2,tp=2 --batch 2 --seq 256 --accum 4 --pp-schedule "
    "zero-bubble --recompute none",
    "gpt2 --gpu h100x4 --batch 2 --seq 256 --recompute none --offload none",
};

PlannedRun planned(const std::string& line) {
  const size_t space = line.find(' ');
  Options options;
  options.model = line.substr(0, space);
  return plan_job(resolve(testing::with_flags(options, line.substr(space + 1))));
}

// Every option that was asked for or chosen, by name.
std::string settings_text(const PlannedRun& plan) {
  const Options defaults, settled = as_settled(plan.run, plan.recompute);
  std::vector<std::string> out;
  for (const Option& option : all_options())
    if (!option.same(defaults, settled))
      out.push_back(fmt::format("{} {}", option.key, option.text(settled)));
  std::ranges::sort(out);
  return join(out, ", ");
}

TEST(GoldenPlans, SameBitsInEveryBuild) {
  std::string text;
  for (const std::string line : kPlans) {
    const PlannedRun plan = planned(line);
    const SpaceBytes bytes = arenas_of(plan);
    text +=
        fmt::format("snug plan {}\n  {:.17g} ms, {} bytes, {} in host memory, {} on disk\n  {}\n",
                    line, plan.step_seconds * 1e3, bytes[Space::device], bytes[Space::host],
                    bytes[Space::disk], settings_text(plan));
  }
  expect_golden_text(text, "plans.txt",
                     "Plans to the last bit. A change of costs or of the search changes them; a\n"
                     "refactoring, an instruction set or an optimisation does not.");
}

}  // namespace
}  // namespace snug
