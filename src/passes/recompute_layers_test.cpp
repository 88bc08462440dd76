// Policies that treat layers differently have a text that reads back.
#include <gmock/gmock.h>

#include "base/error.h"
#include "passes/recompute_policy.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

std::string why_not(std::string_view text) {
  try {
    parse_recompute(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "it is taken";
}

TEST(RecomputeLayers, TextReadsBackToTheSamePolicy) {
  const RecomputePolicy policy{.kind = RecomputePolicy::Kind::chosen,
                               .chosen = {{0, 0, {"attn.norm", "mlp.act"}},
                                          {1, 1, {"attn.norm", "mlp.act"}},
                                          {2, 2},
                                          {3, 4},
                                          {5, 6},
                                          {7, 7},
                                          {9, 9, {"mlp.act"}}}};
  EXPECT_EQ(option_text(policy),
            "layers:0-1=attn.norm+mlp.act,2=full,3-6=every:2,7=full,9=mlp.act");
  EXPECT_EQ(parse_recompute(option_text(policy)), policy);
  for (const char* text :
       {"none", "full", "every:3", "sqrt", "ratio:0.5", "attention", "list:0,3,5-7", "auto:1024"})
    EXPECT_EQ(option_text(parse_recompute(text)), text);
  EXPECT_EQ(option_text({.kind = RecomputePolicy::Kind::chosen}), "none");
}

TEST(RecomputeLayers, RefusesWhatIsNotOne) {
  EXPECT_THAT(why_not("layers:"), HasSubstr("LAYER=WHAT"));
  EXPECT_THAT(why_not("layers:0-3"), HasSubstr("LAYER=WHAT"));
  EXPECT_THAT(why_not("layers:3-1=full"), HasSubstr("LAYER=WHAT"));
  EXPECT_THAT(why_not("layers:2=full,1=full"), HasSubstr("after a later layer"));
  EXPECT_THAT(why_not("layers:0-3=every:x"), HasSubstr("every:LAYERS"));
  EXPECT_THAT(why_not("layers:0=full=full"), HasSubstr("two things"));
  EXPECT_THAT(why_not("layers:0=a++b"), HasSubstr("without a name"));
}

TEST(RecomputeLayers, ALayerThatIsNotThereIsRefused) {
  EXPECT_THROW(segments_of(parse_recompute("layers:0-4=full"), 4), Error);
  EXPECT_EQ(segments_of(parse_recompute("layers:0-3=full"), 4).size(), 4U);
}

}  // namespace
}  // namespace snug
