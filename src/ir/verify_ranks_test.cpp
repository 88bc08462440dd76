#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/toy_ops.h"
#include "ir/verifier.h"

namespace snug {
namespace {

using testing::HasSubstr;
using toy::Fixture;

struct Rank : Fixture {
  void gather(int64_t seq, ValueId in) {
    b.emit(toy::gather, "gather", {in}, {{"axis", "dp"}, {"seq", seq}, {"ranks", 2}});
  }
  void reduce(int64_t seq) { b.emit(toy::reduce, "reduce", {x}, {{"axis", "dp"}, {"seq", seq}}); }
  void send(int64_t peer, int64_t seq) {
    b.emit(toy::send, "send", {x}, {{"axis", "pp"}, {"peer", peer}, {"seq", seq}});
  }
  void recv(int64_t peer, int64_t seq, int64_t elements) {
    b.emit(toy::recv, "recv", {},
           {{"axis", "pp"}, {"peer", peer}, {"seq", seq}, {"elements", elements}});
  }
};

std::string fault_between(const Rank& first, const Rank& second) {
  const Module* ranks[] = {&first.module, &second.module};
  try {
    verify_ranks(ranks);
  } catch (const Error& e) {
    return e.what();
  }
  return "sound";
}

TEST(VerifyRanks, CollectivesMatch) {
  Rank first;
  Rank second;
  for (Rank* r : {&first, &second}) r->gather(1, r->x);
  EXPECT_EQ(fault_between(first, second), "sound");
  first.gather(2, first.x);
  EXPECT_THAT(fault_between(first, second), HasSubstr("of rank 1 missing"));
  second.reduce(2);
  EXPECT_THAT(fault_between(first, second),
              HasSubstr("collective 1 of rank 0 is gather 'gather.2'"));
  second.b.program().ops.pop_back();
  second.gather(3, second.x);
  EXPECT_THAT(fault_between(first, second), HasSubstr("number 3"));
  second.b.program().ops.pop_back();
  second.gather(2, second.b.view(second.x, "half", {32}, 0));
  EXPECT_THAT(fault_between(first, second), HasSubstr("128 bytes in"));
}

TEST(VerifyRanks, MessagesMatch) {
  Rank first;
  Rank second;
  first.send(1, 0);
  EXPECT_THAT(
      fault_between(first, second),
      HasSubstr(
          "sends message 0 of 256 bytes from rank 0 to rank 1 on axis 'pp': no rank receives it"));
  second.recv(0, 0, 64);
  EXPECT_EQ(fault_between(first, second), "sound");
  second.recv(0, 1, 64);
  EXPECT_THAT(fault_between(first, second), HasSubstr("no rank sends it"));
  first.send(1, 1);
  EXPECT_EQ(fault_between(first, second), "sound");
  second.send(0, 2);
  first.recv(1, 2, 63);
  EXPECT_THAT(fault_between(first, second), HasSubstr("'recv' has 252"));
}

}  // namespace
}  // namespace snug
