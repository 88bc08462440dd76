// Policies that treat layers differently have a text that reads back.
#include <gmock/gmock.h>

#include "base/error.h"
#include "settings/parse.h"
#include "techniques/recompute/recompute.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

std::string why_not(std::string_view text) {
  try {
    parse_setting<RecomputePolicy>(text, "recompute");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "it is taken";
}

TEST(RecomputeLayers, TextReadsBackToSamePolicy) {
  const RecomputePolicy policy{.kind = RecomputePolicy::Kind::chosen,
                               .chosen = {{0, 0, {"attn.norm", "mlp.act"}},
                                          {1, 1, {"attn.norm", "mlp.act"}},
                                          {2, 2},
                                          {3, 4},
                                          {5, 6},
                                          {7, 7},
                                          {9, 9, {"mlp.act"}}}};
  EXPECT_EQ(text(policy), "layers:0-1=attn.norm+mlp.act,2=full,3-6=every:2,7=full,9=mlp.act");
  EXPECT_EQ(parse_setting<RecomputePolicy>(text(policy), "recompute"), policy);
  for (const char* written :
       {"none", "full", "every:3", "sqrt", "ratio:0.5", "attention", "list:0,3,5-7", "auto:1KiB"})
    EXPECT_EQ(text(parse_setting<RecomputePolicy>(written, "recompute")), written);
  EXPECT_EQ(text(RecomputePolicy{.kind = RecomputePolicy::Kind::chosen}), "none");
}

TEST(RecomputeLayers, RefusesOtherText) {
  EXPECT_THAT(why_not("layers:"), HasSubstr("LAYER=WHAT"));
  EXPECT_THAT(why_not("layers:0-3"), HasSubstr("LAYER=WHAT"));
  EXPECT_THAT(why_not("layers:3-1=full"), HasSubstr("LAYER=WHAT"));
  EXPECT_THAT(why_not("layers:2=full,1=full"), HasSubstr("after a later layer"));
  EXPECT_THAT(why_not("layers:0-3=every:x"), HasSubstr("every:LAYERS"));
  EXPECT_THAT(why_not("layers:0=full=full"), HasSubstr("two things"));
  EXPECT_THAT(why_not("layers:0=a++b"), HasSubstr("without a name"));
}

TEST(RecomputeLayers, MissingLayerIsRefused) {
  EXPECT_THROW(segments_of(parse_setting<RecomputePolicy>("layers:0-4=full", "recompute"), 4),
               Error);
  EXPECT_EQ(segments_of(parse_setting<RecomputePolicy>("layers:0-3=full", "recompute"), 4).size(),
            4U);
}

}  // namespace
}  // namespace snug
