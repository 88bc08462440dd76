// --mesh, --tp and --pp: what they say together, and what is refused.
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/mesh_options.h"
#include "snug/set_option.h"

namespace snug {
namespace {

MeshSizes sizes(const std::string& mesh, int64_t tp, int64_t pp, int64_t ranks) {
  Options o;
  set_option(o, "mesh", mesh);
  o.tp = tp;
  o.pp = pp;
  return mesh_for(o, ranks);
}

}  // namespace

TEST(MeshOptions, OmittedSizesFollow) {
  EXPECT_EQ(sizes("pp=2,dp=4,tp=2", 0, 0, 0).ranks(), 16);
  EXPECT_EQ(sizes("", 2, 2, 0).dp, 1);
  EXPECT_EQ(sizes("", 2, 2, 12).dp, 3);
  EXPECT_EQ(sizes("tp=4", 4, 2, 16).dp, 2);
  EXPECT_EQ(sizes("", 0, 0, 8).dp, 8);
}

TEST(MeshOptions, ContradictionsAreRefused) {
  const auto refusal = [](auto... arguments) {
    try {
      sizes(arguments...);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no refusal");
  };
  EXPECT_EQ(refusal("pp=2,dp=4,tp=2", 0, 0, 8),
            "a mesh of pp=2, dp=4, tp=2 is for 16 ranks, and there are 8");
  EXPECT_EQ(refusal("", 2, 2, 6),
            "a mesh of pp=2, tp=2 is for a multiple of 4 ranks, and there are 6");
  EXPECT_EQ(refusal("tp=2", 4, 0, 0), "--mesh tp=2 and --tp 4 contradict each other");
  EXPECT_EQ(refusal("tp=2,tp=2", 0, 0, 0), "--mesh tp=2,tp=2 names tp twice");
  EXPECT_EQ(refusal("tq=2", 0, 0, 0), "--mesh tq=2: 'tq' is no axis");
  EXPECT_EQ(refusal("tp=0", 0, 0, 0), "--mesh tp=0: 'tp=0' is not an axis and its size, like tp=2");
}

}  // namespace snug
