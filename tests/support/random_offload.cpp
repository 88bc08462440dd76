#include "support/random_offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/rng.h"
#include "runtime/initialise.h"
#include "runtime/null_executor.h"
#include "runtime/testing/host_values.h"

namespace snug {
namespace {

constexpr int kSteps = 3;

// With all that an update keeps in host memory.
void offload_state(Offload& offload) {
  for (const OffloadItem item : {OffloadItem::optimizer, OffloadItem::master}) {
    std::erase_if(offload.rules, [&](const Offload::Rule& rule) { return rule.item == item; });
    offload.rules.push_back({.item = item});
  }
  std::ranges::stable_sort(offload.rules, {}, &Offload::Rule::item);
}

struct Trained {
  std::vector<float> losses;
  std::vector<std::vector<std::byte>> values;  // persistent ones: weights, masters, states
};

Trained train_and_look(SmallRun& run) {
  Trained out{run.losses(kSteps), {}};
  out.losses.push_back(run.evaluate());
  out.losses.push_back(run.step());
  flush_updates(run.executor());
  HostValues host(run.executor());
  for (size_t i = 0; i < run.module().values.size(); ++i) {
    const Value& value = run.module().values[i];
    if (value.scope != Scope::persistent || !value.owns_bytes()) continue;
    const auto bytes = host.look(ValueId{static_cast<int32_t>(i)});
    out.values.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

// On a GPU the mark may be below the plan: kernels leave scratch unwritten.
void expect_planned(SmallRun& run) {
  const NullRun null = run_null(run.module());
  for (size_t s = 0; s < kSpaces; ++s) {
    const auto space = static_cast<Space>(s);
    const int64_t planned = run.executor().planned_bytes(space);
    EXPECT_EQ(run.executor().allocated_bytes(space), planned) << name_of(space);
    EXPECT_EQ(null.high_water[s], planned) << name_of(space);
    if (shares_host_memory(run.executor().device())) {
      EXPECT_EQ(run.executor().measured_bytes(space), planned) << name_of(space);
    } else {
      EXPECT_LE(run.executor().measured_bytes(space), planned) << name_of(space);
    }
  }
}

}  // namespace

DrawnOffload draw_offload(int seed) {
  DrawnOffload d{draw_recipe(seed), {}, false, {}};
  const Key key = random_key(31, static_cast<uint64_t>(seed), hash_name("offload"));
  uint64_t draws = 0;
  const auto below = [&](uint32_t n) { return philox(key, draws++)[0] % n; };
  // Some items, each of some layers; all models of draw_recipe have two.
  for (int item = 0; item < kOffloadItems; ++item) {
    if (below(2) == 0) continue;
    Offload::Rule rule{.item = static_cast<OffloadItem>(item)};
    if (below(2) == 0) rule.place = Space::disk;
    if (const auto layer = static_cast<int32_t>(below(4)); layer < 2)
      rule.layers = {{layer, layer}};
    d.offload.rules.push_back(rule);
  }
  if (d.offload.none()) d.offload.rules.push_back({});
  d.offload.ahead = 1 + static_cast<int32_t>(below(3));
  d.offload.slice = int64_t{1} << (7 + below(11));
  d.fold = !d.recipe.update_in_backward && below(2) == 0;
  if (below(3) == 0) d.recipe.micro_group = d.recipe.accum;
  d.host_update.on = below(2) == 0;
  if (const auto layer = static_cast<int32_t>(below(4)); d.host_update.on && layer < 2)
    d.host_update.layers = {{layer, layer}};
  if (d.host_update.on && below(4) > 0) offload_state(d.offload);
  d.text += fmt::format(" offload {} ahead {} slice {} fold {} group {} host-update {}",
                        text(d.offload), d.offload.ahead, d.offload.slice, d.fold,
                        d.recipe.micro_group, text(d.host_update));
  return d;
}

void expect_offload_is_exact(const DrawnOffload& drawn, const std::vector<OffloadRun>& runs,
                             Device* device) {
  SmallRun in_memory(drawn.model, drawn.build, drawn.recipe, runs.front().options, device);
  const Trained want = train_and_look(in_memory);
  Recipe recipe = drawn.recipe;
  recipe.offload = drawn.offload;
  recipe.fold_update = drawn.fold;
  recipe.host_update = drawn.host_update;
  const std::string dir = std::filesystem::temp_directory_path().string();
  for (const OffloadRun& how : runs) {
    ExecutorOptions options = how.options;
    options.offload_dir = dir;
    SmallRun run(drawn.model, drawn.build, recipe, options, device);
    const Trained got = train_and_look(run);
    EXPECT_EQ(got.losses, want.losses) << how.how;
    EXPECT_TRUE(got.values == want.values) << how.how << ": a persistent value is another";
    if (!how.options.test.poison_dead) expect_planned(run);
  }
}

}  // namespace snug
