// The technique table: every row is a run that options accept, and is what its readers take it for.
#include "techniques/techniques.h"

#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "recipe/open_dimensions.h"
#include "recipe/resolve.h"
#include "settings/parse.h"
#include "snug/set_option.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

Options tiny() {
  Options o;
  o.model = "snug-tiny";
  return o;
}

// The settings of fp32 AdamW that keeps everything, computed as plainly as can be.
Options plain() {
  return changed(tiny(), {{&Options::attention, AttentionChoice{ops::AttentionKind::standard}},
                          {&Options::loss, LossChoice{.chunked = false}},
                          {&Options::recompute, RecomputePolicy{}}});
}

TEST(Techniques, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Technique& t : techniques()) {
    EXPECT_TRUE(names.insert(t.name).second) << t.name;
    EXPECT_EQ(&technique(t.name), &t);
    EXPECT_FALSE(t.numbers.empty()) << t.name << ": the documents say what it does to the numbers";
  }
}

TEST(Techniques, EveryRowDiffersFromAnotherRun) {
  for (const Technique& t : techniques()) {
    SCOPED_TRACE(t.name);
    Options o = tiny();
    if (t.change.sets(&Options::grad_dtype))
      o = changed(o, {{&Options::precision, ComputeType::bf16}, {&Options::accum, 2}});
    if (t.change == technique("fp16 gradients").change)
      o = changed(o, {{&Options::precision, ComputeType::fp16}});
    if (t.name == "without master") o = changed(o, technique("bf16").change);
    if (t.name == "update on the host") o = changed(o, technique("offload state").change);
    if (t.dimension == "base") set_option(o, "lora", "r=2");
    if (t.dimension == "zero") o.ranks = 2;
    if (t.name == "update in backward, unclipped") o = changed(o, {{&Options::clip, 0.0}});
    const Settings& with = resolve(changed(o, t.change));
    const bool is_default = with == static_cast<const Settings&>(resolve(o));
    const bool is_plain = with == static_cast<const Settings&>(resolve(plain()));
    EXPECT_FALSE(is_default && is_plain);
  }
}

TEST(Techniques, HelpfulTechniqueIsNotInUse) {
  const Resolved run = resolve(plain());
  for (const Technique& t : techniques()) {
    if (t.helps == nullptr || !t.helps(run, false)) continue;
    const Resolved with = changed(run, t.change);
    EXPECT_FALSE(t.helps(with, false)) << t.name << " helps twice";
    EXPECT_NE(static_cast<const Settings&>(with), static_cast<const Settings&>(run)) << t.name;
  }
}

TEST(Techniques, HostUpdatesHelpOffloadFromGpu) {
  const Technique& on_host = technique("update on the host");
  const auto helps = [&](const char* device, const char* offload, const Change& more = {}) {
    const Change change{{&Options::device, parse_setting<DeviceChoice>(device, "device")},
                        {&Options::offload, parse_setting<Offload>(offload, "offload")},
                        {&Options::precision, ComputeType::bf16}};
    return on_host.helps(resolve(changed(tiny(), change + more)), /*has_budget=*/false);
  };
  EXPECT_TRUE(helps("cuda", "optimizer,master"));
  EXPECT_FALSE(helps("cuda", "optimizer,master", on_host.change)) << "it is in use";
  EXPECT_FALSE(helps("cuda", "optimizer")) << "masters are on the device";
  EXPECT_FALSE(helps("cuda", "optimizer=disk,master=disk"));
  EXPECT_FALSE(helps("cuda", "optimizer,master,optimizer@1=disk"));
  EXPECT_FALSE(helps("cuda", "optimizer,master,grads=disk"));
  EXPECT_FALSE(helps("cuda", "none"));
  EXPECT_FALSE(helps("cpu", "optimizer,master")) << "the same cores";
}

TEST(Techniques, EveryDimensionHasAlternativesAndSmallest) {
  for (const DimensionRow& row : dimensions()) {
    SCOPED_TRACE(row.name);
    Options options = plain();
    if (row.moves) set_option(options, "device", "cuda");  // a CPU has no other memory to go to
    if (row.name == "base") set_option(options, "lora", "r=2");  // else nothing is frozen
    if (row.name == "zero") options.ranks = 2;                   // ZeRO needs at least two
    const Resolved run = resolve(options);
    EXPECT_EQ(smallest_of(row.name).dimension, row.name);
    int searched = 0;
    for (const Technique& t : techniques()) {
      if (t.dimension != row.name || t.searched == nullptr) continue;
      searched += t.searched(run, run.cost_model.spec()) ? 1 : 0;
      EXPECT_TRUE(!row.needs_allow || t.effect != Effect::exact) << t.name;
    }
    EXPECT_GT(searched, 0);
    EXPECT_EQ(is_open(row, tiny()), !row.needs_allow);
  }
}

TEST(Techniques, RefuseExcludedTechniques) {
  const auto why = [](const Change& change) -> std::string {
    try {
      resolve(changed(tiny(), change));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "it is taken";
  };
  EXPECT_THAT(why(technique("adamw8bit").change + technique("bf16 state").change),
              HasSubstr("8 bits"));
  EXPECT_THAT(why(technique("update in backward, unclipped").change), HasSubstr("--clip 1"));
  EXPECT_EQ(why(technique("update in backward").change), "it is taken");
}

TEST(Techniques, UnknownNameIsInternalError) {
  try {
    technique("int9 activations");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
  }
}

}  // namespace
}  // namespace snug
