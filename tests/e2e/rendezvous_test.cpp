// No job of random shape waits for itself: the programs of all its ranks are followed together
// (verify_ranks), whatever their lanes' timing. And the proof can fail: a program that was changed on
// one rank is refused, by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "base/error.h"
#include "ir/verifier.h"
#include "support/random_job.h"
#include "support/small_run.h"

namespace snug {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Followed {
  int64_t collectives = 0;  // of rank 0
  std::string fault;
};

Followed follow(const std::vector<Module>& ranks) {
  Followed out;
  for (const Program& program : ranks[0].programs)
    for (const Op& op : program.ops) out.collectives += op.def->comm != Comm::none ? 1 : 0;
  std::vector<const Module*> modules;
  for (const Module& module : ranks) modules.push_back(&module);
  try {
    verify_ranks(modules);
  } catch (const Error& e) {
    out.fault = e.what();
  }
  return out;
}

// SNUG_SEEDS=600 prints a table of so many.
TEST(Rendezvous, RandomJobsTerminate) {
  constexpr int kUsually = 16;
  const int seeds = seeds_to_try(kUsually);
  int64_t collectives = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    const DrawnRankJob job = draw_rank_job(seed);
    SCOPED_TRACE(job.text);
    const std::vector<Module> ranks = compile_ranks(job);
    const Followed followed = follow(ranks);
    EXPECT_EQ(followed.fault, "");
    EXPECT_GT(followed.collectives, 0);
    for (const Module& module : ranks) {
      EXPECT_NO_THROW(verify(module, job.recipe.backend));
      EXPECT_EQ(collectives_text(module), collectives_text(ranks[0]));
    }
    collectives += followed.collectives;
    if (seeds > kUsually)
      std::cout << fmt::format("{:4} {} {:5} collectives  {}\n", seed,
                               followed.fault.empty() ? "ends" : followed.fault,
                               followed.collectives, job.short_text);
  }
  std::cout << fmt::format("{} jobs, {} collectives of a rank\n", seeds, collectives);
}

// Three ranks that share all state, and what the others do when rank 1 was changed.
class ChangedRank : public ::testing::Test {
 protected:
  std::vector<Module> ranks = compile_ranks(
      {.model = tests_dir() + "/e2e/llama-wide.json",
       .build = {.batch = 1, .seq = 8},
       .recipe = {.sharding = {.ranks = 3, .level = 3, .threshold = 0}, .sums_apart = true}});
  Module& module = ranks[1];
  std::vector<Op>& ops = module.program("micro_first").ops;

  // The n-th on that lane.
  std::vector<Op>::iterator on_lane(std::string_view lane, int n) {
    return std::ranges::find_if(ops, [&](const Op& op) { return op.lane == lane && n-- == 0; });
  }
  std::string fault() const { return follow(ranks).fault; }

  static constexpr const char* kGather = "comm.dp.gather";
  static constexpr const char* kSum = "comm.dp.sum";
};

TEST_F(ChangedRank, UnchangedItEnds) { EXPECT_EQ(fault(), ""); }

TEST_F(ChangedRank, TwoSwapped) {
  const auto a = on_lane(kGather, 0);
  const auto b = std::find_if(a + 1, ops.end(), [&](const Op& op) {
    return op.lane == kGather && module[op.inputs[0]].type == module[a->inputs[0]].type;
  });
  ASSERT_NE(b, ops.end()) << "nothing but names differs";
  std::swap(a->inputs, b->inputs);
  std::swap(a->outputs, b->outputs);
  std::swap(a->name, b->name);
  const std::string first = b->name, second = a->name;
  EXPECT_THAT(fault(), AllOf(HasSubstr("program 'micro_first': on lane comm.dp.gather rank 0 is at "
                                       "all_gather '" +
                                       first),
                             HasSubstr("rank 1 at all_gather '" + second)));
}

TEST_F(ChangedRank, OneDropped) {
  const auto dropped = on_lane(kGather, 2);
  const std::string name = dropped->name;
  ops.erase(dropped);
  EXPECT_THAT(fault(), HasSubstr("rank 0 is at all_gather '" + name));
}

TEST_F(ChangedRank, LastDropped) {
  std::vector<Op> kept = ops;
  while (kept.back().def->comm == Comm::none) kept.pop_back();
  const std::string name = kept.back().name;
  kept.pop_back();
  ops = kept;
  EXPECT_THAT(fault(), AllOf(HasSubstr("the ranks wait for each other; rank 0"),
                             HasSubstr("'" + name + "' waits for rank 1, whose lane has ended"),
                             HasSubstr("rank 2")));
}

TEST_F(ChangedRank, AnotherSize) {
  const auto op = on_lane(kSum, 0);
  module[op->inputs[0]].type.shape = {12};
  EXPECT_THAT(fault(), AllOf(HasSubstr("rank 1 at " + std::string(op->def->kind) + " '" + op->name),
                             HasSubstr("f32[12]")));
}

// A gather of rank 1 waits for a sum that is listed before it there, and on the others after it.
TEST_F(ChangedRank, CircularWait) {
  const auto sum = on_lane(kSum, 0);
  const auto gather = std::find_if(sum, ops.end(), [](const Op& op) { return op.lane == kGather; });
  ASSERT_NE(gather, ops.end());
  gather->after.push_back(sum->name);
  EXPECT_EQ(fault(), "") << "that is the order of all lists";
  for (Module& other : ranks) {
    if (&other == &module) continue;
    std::vector<Op>& list = other.program("micro_first").ops;
    const auto find = [&](const std::string& name) {
      return std::ranges::find(list, name, &Op::name);
    };
    // Moved before the sum, which waits for it: it reads a shard and writes a copy of its own.
    std::rotate(find(sum->name), find(gather->name), find(gather->name) + 1);
    find(sum->name)->after.push_back(gather->name);
  }
  EXPECT_THAT(fault(), AllOf(HasSubstr("the ranks wait for each other"),
                             HasSubstr("rank 1, lane comm.dp.gather: all_gather '" + gather->name +
                                       "' waits for all_"),
                             HasSubstr("' waits for all_gather '" + gather->name)));
}

}  // namespace
}  // namespace snug
