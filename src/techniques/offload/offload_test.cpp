#include "techniques/offload/settings.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "settings/parse.h"

namespace snug {
namespace {

std::string why_not_offload(std::string_view option) {
  try {
    parse_setting<Offload>(option, "offload");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.what();
  }
  return "taken";
}

TEST(ParseOffload, PrintedTextReadsBack) {
  for (const char* option : {"none", "optimizer", "all", "all@0-3", "params@0-11+15",
                             "optimizer,master@2", "optimizer=disk,params@0-11+15", "all=disk",
                             "params@0=disk,params@1-3", "optimizer,optimizer@0-3=disk"})
    EXPECT_EQ(text(parse_setting<Offload>(option, "offload")), option);
  EXPECT_EQ(text(parse_setting<Offload>("params@3+0-1+2=host,optimizer", "offload")),
            "optimizer,params@0-3");
  EXPECT_EQ(text(parse_setting<Offload>("optimizer,master,grads,params,activations", "offload")),
            "all");
  EXPECT_EQ(text(parse_setting<Offload>("params@1,params", "offload")), "params");
  EXPECT_EQ(text(parse_setting<Offload>("all@1,params@4", "offload")),
            "optimizer@1,master@1,grads@1,params@1+4,activations@1");
}

TEST(ParseOffload, NamesSpaceOfValue) {
  const Offload offload = parse_setting<Offload>("optimizer,params@0-1+3,grads@4=disk", "offload");
  EXPECT_EQ(offload.space_of(OffloadItem::optimizer, 7), Space::host);
  EXPECT_EQ(offload.space_of(OffloadItem::optimizer, kNoLayer), Space::host);
  EXPECT_EQ(offload.space_of(OffloadItem::params, 1), Space::host);
  EXPECT_EQ(offload.space_of(OffloadItem::params, 2), Space::device);
  EXPECT_EQ(offload.space_of(OffloadItem::params, kNoLayer), Space::device);
  EXPECT_EQ(offload.space_of(OffloadItem::grads, 0), Space::device);
  EXPECT_EQ(offload.space_of(OffloadItem::grads, 4), Space::disk);
  EXPECT_TRUE(offload.uses(Space::disk));
  EXPECT_FALSE(parse_setting<Offload>("params", "offload").uses(Space::disk));
}

TEST(ParseOffload, LayerRulesOverrideGeneralRule) {
  const Offload offload = parse_setting<Offload>("optimizer@1-2=disk,optimizer", "offload");
  EXPECT_EQ(offload.space_of(OffloadItem::optimizer, 0), Space::host);
  EXPECT_EQ(offload.space_of(OffloadItem::optimizer, 2), Space::disk);
  EXPECT_EQ(offload.space_of(OffloadItem::optimizer, kNoLayer), Space::host);
}

TEST(ParseOffload, RefusesByName) {
  EXPECT_NE(why_not_offload("optimiser").find("did you mean 'optimizer'"), std::string::npos);
  EXPECT_NE(why_not_offload("").find("'' is not one of"), std::string::npos);
  EXPECT_NE(why_not_offload("params,").find("'' is not one of"), std::string::npos);
  EXPECT_NE(why_not_offload("params@").find("'' is not a layer"), std::string::npos);
  EXPECT_NE(why_not_offload("params@5-2").find("'5-2' is not a layer"), std::string::npos);
  EXPECT_NE(why_not_offload("params@-1").find("'-1' is not a layer"), std::string::npos);
  EXPECT_NE(why_not_offload("params=tape").find("'tape' is not a place"), std::string::npos);
  EXPECT_NE(why_not_offload("params=").find("'' is not a place: host or disk"), std::string::npos);
  for (const char* twice : {"params,params=disk", "params@0-3,params@1=disk",
                            "params@1=disk,params,params@1", "all,grads=disk"})
    EXPECT_NE(why_not_offload(twice).find("says two things of"), std::string::npos) << twice;
  EXPECT_NE(why_not_offload("none,params").find("'none' is not one of"), std::string::npos);
  EXPECT_THROW(require_layers(parse_setting<Offload>("params@0-12", "offload"), 12), Error);
  EXPECT_NO_THROW(require_layers(parse_setting<Offload>("params@0-11", "offload"), 12));
}

}  // namespace
}  // namespace snug
