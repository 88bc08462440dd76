#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "ir/toy_ops.h"
#include "ir/verifier.h"

namespace snug {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using toy::Fixture;

struct Rank : Fixture {
  explicit Rank(int64_t ranks = 2) : ranks_(ranks) {}

  void gather(std::string_view name, int64_t seq, ValueId in, std::string_view axis = "dp") {
    b.emit(toy::gather, name, {in}, {{"axis", std::string(axis)}, {"seq", seq}, {"ranks", ranks_}});
    b.last().lane = fmt::format("comm.{}.gather", axis);
  }
  void gather(std::string_view name, int64_t seq) { gather(name, seq, x); }
  void reduce(std::string_view name, int64_t seq, std::string_view axis = "dp") {
    b.emit(toy::reduce, name, {x}, {{"axis", std::string(axis)}, {"seq", seq}});
    b.last().lane = fmt::format("comm.{}.sum", axis);
  }
  void send(int64_t peer, int64_t seq) {
    b.emit(toy::send, "send", {x}, {{"axis", "pp"}, {"peer", peer}, {"seq", seq}});
  }
  void recv(int64_t peer, int64_t seq, int64_t elements) {
    b.emit(toy::recv, "recv", {},
           {{"axis", "pp"}, {"peer", peer}, {"seq", seq}, {"elements", elements}});
  }
  void wait_for(const std::string& earlier) { b.last().after = {earlier}; }
  std::vector<Op>& ops() { return b.program().ops; }

 private:
  int64_t ranks_;
};

std::string fault_of(std::span<const Module* const> ranks) {
  try {
    verify_ranks(ranks);
  } catch (const Error& e) {
    return e.what();
  }
  return "sound";
}
std::string fault_between(const Rank& first, const Rank& second) {
  const Module* ranks[] = {&first.module, &second.module};
  return fault_of(ranks);
}

// Gathers and sums of one axis, on lanes of their own.
struct Pair {
  Rank first, second;
  Pair() {
    for (Rank* r : {&first, &second}) {
      r->gather("g0", 0);
      r->reduce("s0", 1);
      r->gather("g1", 2);
    }
  }
  std::string fault() const { return fault_between(first, second); }
};

TEST(VerifyRanks, CollectivesMeet) { EXPECT_EQ(Pair().fault(), "sound"); }

TEST(VerifyRanks, AnotherOrderOnALaneIsNamed) {
  Pair p;
  std::swap(p.second.ops()[0], p.second.ops()[2]);
  EXPECT_THAT(
      p.fault(),
      AllOf(HasSubstr("program 'p': on lane comm.dp.gather rank 0 is at gather 'g0' (number 0"),
            HasSubstr("rank 1 at gather 'g1' (number 2")));
  // Numbers that were given late hide nothing: names say what is gathered.
  for (size_t i : {0, 2}) p.second.ops()[i].attrs.set("seq", static_cast<int64_t>(i));
  EXPECT_THAT(p.fault(), HasSubstr("rank 1 at gather 'g1' (number 0"));
}

TEST(VerifyRanks, MissingCollectiveIsNamed) {
  Pair p;
  p.second.ops().pop_back();
  EXPECT_THAT(p.fault(),
              HasSubstr("the ranks wait for each other; rank 0, lane comm.dp.gather: gather 'g1' "
                        "waits for rank 1, whose lane has ended"));
  p.second.ops().erase(p.second.ops().begin());
  EXPECT_THAT(p.fault(), HasSubstr("gather 'g0' waits for rank 1, whose lane has ended"));
}

TEST(VerifyRanks, AnotherKindTypeOrGroupIsNamed) {
  Pair kind;
  kind.second.ops()[1].lane = kind.second.ops()[0].lane;
  kind.second.ops().erase(kind.second.ops().begin());
  EXPECT_THAT(kind.fault(), HasSubstr("rank 0 is at gather 'g0'"));
  EXPECT_THAT(kind.fault(), HasSubstr("rank 1 at reduce 's0'"));

  Pair size;
  size.first.gather("g2", 3);
  size.second.gather("g2", 3, size.second.b.view(size.second.x, "half", {32}, 0));
  EXPECT_THAT(size.fault(),
              AllOf(HasSubstr("rank 0 is at gather 'g2' (number 3 of axis dp, 2 ranks, f32[64]"),
                    HasSubstr("rank 1 at gather 'g2' (number 3 of axis dp, 2 ranks, f32[32]")));

  Pair group;
  group.second.ops()[2].attrs.set("ranks", int64_t{1});
  EXPECT_THAT(group.fault(), HasSubstr("rank 1 at gather 'g1' (number 2 of axis dp, 1 ranks"));
  for (Rank* r : {&group.first, &group.second}) r->ops()[2].attrs.set("ranks", int64_t{3});
  EXPECT_THAT(group.fault(), HasSubstr("gather 'g1' is for ranks up to 2, and there are 2"));
}

// Each lane has the same collectives in the same order, and each rank's waits are its own list's.
TEST(VerifyRanks, CircularWaitsAreNamed) {
  Rank first, second;
  first.gather("g", 0, first.x, "dp");
  first.reduce("s", 0, "tp");
  second.reduce("s", 0, "tp");
  second.gather("g", 0, second.x, "dp");
  EXPECT_THAT(fault_between(first, second),
              HasSubstr("wait for each other, op by op in list order"))
      << "side by side the lanes would meet";
  first.wait_for("g");
  second.wait_for("s");
  EXPECT_THAT(fault_between(first, second),
              AllOf(HasSubstr("rank 0, lane comm.dp.gather: gather 'g' waits for rank 1, which is "
                              "before gather 'g'"),
                    HasSubstr("rank 0, lane comm.tp.sum: reduce 's' waits for gather 'g'"),
                    HasSubstr("rank 1, lane comm.dp.gather: gather 'g' waits for reduce 's'"),
                    Not(HasSubstr("list order"))));
}

TEST(VerifyRanks, OtherProgramsAreNamed) {
  Pair p;
  p.second.module.programs[0].name = "q";
  EXPECT_THAT(p.fault(), HasSubstr("rank 1 has no program 'p'"));
  Pair q;
  q.first.module.step = {{2, {"p"}}};
  q.second.module.step = {{3, {"p"}}};
  EXPECT_THAT(q.fault(), HasSubstr("rank 1 steps through other programs"));
}

// Two rows of two ranks: each row shards, each column sums.
TEST(VerifyRanks, GroupsMatchMesh) {
  std::vector<Rank> ranks(4);
  std::vector<const Module*> modules;
  for (Rank& r : ranks) {
    r.gather("w", 0, r.x, "shard");
    r.gather("g", 0, r.x, "replicate");
    r.ops().back().attrs.set("stride", int64_t{2});
    modules.push_back(&r.module);
  }
  EXPECT_EQ(fault_of(modules), "sound");
  EXPECT_THAT(fault_of(std::span(modules).first(3)), HasSubstr("and there are 3"));
  // Only rank 1, of the same column, notices.
  ranks[3].ops().pop_back();
  EXPECT_THAT(fault_of(modules),
              AllOf(HasSubstr("each other; rank 1, lane comm.replicate.gather: gather 'g' waits "
                              "for rank 3, whose lane has ended"),
                    Not(HasSubstr("rank 0"))));
}

TEST(VerifyRanks, MessagesMatch) {
  Rank first;
  Rank second;
  first.send(1, 0);
  EXPECT_THAT(fault_between(first, second),
              HasSubstr("rank 0, lane compute: send 'send' waits for rank 1"));
  second.recv(0, 0, 64);
  EXPECT_EQ(fault_between(first, second), "sound");
  second.recv(0, 1, 64);
  EXPECT_THAT(fault_between(first, second), HasSubstr("recv 'recv.2' waits for rank 0"));
  first.send(1, 1);
  EXPECT_EQ(fault_between(first, second), "sound");
  second.send(0, 2);
  first.recv(1, 2, 63);
  EXPECT_THAT(
      fault_between(first, second),
      HasSubstr("rank 1 sends send 'send' (number 2 of axis pp, f32[64]), rank 0 takes recv "
                "'recv' (number 2 of axis pp, f32[63])"));
  first.ops().back().attrs.set("peer", int64_t{5});
  EXPECT_THAT(fault_between(first, second), HasSubstr("waits for rank 0"));
}

// Both send first: each waits until the other takes it.
TEST(VerifyRanks, CrossingMessagesWaitForEachOther) {
  Rank first, second;
  first.send(1, 0);
  first.recv(1, 0, 64);
  second.send(0, 0);
  second.recv(0, 0, 64);
  EXPECT_THAT(fault_between(first, second), HasSubstr("the ranks wait for each other"));
  first.ops()[0].lane = second.ops()[1].lane = "comm.pp.up";
  first.ops()[1].lane = second.ops()[0].lane = "comm.pp.down";
  EXPECT_EQ(fault_between(first, second), "sound") << "lanes of their own";
}

// The first rank's three messages are one program, the second's one program three times.
TEST(VerifyRanks, MessagesOfAStepMeetAcrossPrograms) {
  Rank first, second;
  for (int64_t i = 0; i < 3; ++i) first.send(1, 0);
  second.recv(0, 0, 64);
  first.module.step = {{1, {"p"}}};
  second.module.step = {{3, {"p"}}};
  EXPECT_EQ(fault_between(first, second), "sound");
  second.module.step = {{2, {"p"}}};
  EXPECT_THAT(fault_between(first, second),
              HasSubstr("a step: the ranks wait for each other; rank 0, lane compute: send "
                        "'send.3' waits for rank 1"));
}

TEST(VerifyRanks, TextHasAllThatMustAgree) {
  const Pair p;
  EXPECT_EQ(collectives_text(p.first.module), collectives_text(p.second.module));
  EXPECT_THAT(
      collectives_text(p.first.module),
      HasSubstr("p, lane comm.dp.gather: gather 'g0' (number 0 of axis dp, 2 ranks, f32[64] to "
                "f32[128])\n"));
}

}  // namespace
}  // namespace snug
