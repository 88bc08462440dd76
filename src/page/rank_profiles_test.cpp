// Profiles of several ranks on a page: the waits between them, and what a page keeps of many.
#include "page/rank_profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/testing.h"
#include "page/memory_file.h"
#include "page/run_subject.h"
#include "page/span_file.h"

namespace snug {
namespace {

// A span of a step; a call where `with` gives its peers: ,"axis":"dp","ranks":2,"stride":1
std::string span_line(std::string_view lane, double begin, double end, std::string_view with = "",
                      std::string_view origin = "measured", int step = 0) {
  return fmt::format(
      "{{\"origin\":\"{}\",\"step\":{},\"op\":\"h.0.x\",\"kind\":\"k\",\"lane\":\"{}\",\"layer\":0,"
      "\"begin_s\":{},\"end_s\":{}{}}}\n",
      origin, step, lane, begin, end, with);
}

std::string memory_line(double begin, std::string_view live, std::string_view space = "device",
                        int step = 0) {
  return fmt::format(
      "{{\"origin\":\"measured\",\"space\":\"{}\",\"step\":{},\"op\":\"h.0.x\",\"layer\":0,"
      "\"phase\":\"forward\",\"begin_s\":{},\"live\":{{{}}}}}\n",
      space, step, begin, live);
}

class RankProfiles : public ::testing::Test {
 protected:
  void write(int64_t rank, std::string_view spans, std::string_view memory = "") {
    const std::string folder = fmt::format("profile/rank-{}/", rank);
    testing::write_bytes(dir_ / (folder + "spans.jsonl"), spans);
    if (!memory.empty()) testing::write_bytes(dir_ / (folder + "memory.jsonl"), memory);
  }
  RanksOnPage read(int64_t ranks = 0) {
    return read_ranks(dir_ / "profile", texts_, {"h.0"}, ranks);
  }

  testing::TempDir dir_;
  Texts texts_;
};

constexpr std::string_view kOfTwo = R"(,"axis":"dp","ranks":2,"stride":1)";

TEST_F(RankProfiles, RowHasStepPeakAndLanes) {
  write(0,
        span_line("compute", 1, 3) + span_line("compute", 4, 5) + span_line("copy", 0.5, 4) +
            span_line("compute", 9, 99, "", "measured", 1),
        memory_line(1, R"("params":10,"grads":5)") + memory_line(2, R"("params":10,"grads":30)") +
            memory_line(9, R"("params":999)", "device", 1) +
            memory_line(1, R"("params":7)", "host"));
  write(1, span_line("compute", 0, 1));
  const RanksOnPage ranks = read();
  EXPECT_EQ(ranks.json["lanes"], Json::parse(R"(["compute", "copy"])"));
  const Json& row = ranks.json["rows"][0];
  EXPECT_EQ(row["rank"], 0);
  EXPECT_EQ(row["step_us"], 4'500'000);
  EXPECT_EQ(row["peak_bytes"], 40);
  EXPECT_EQ(row["lanes"], Json::parse("[[0, 3000000], [1, 3500000]]"));
  EXPECT_TRUE(ranks.json["rows"][1]["peak_bytes"].is_null());
  const Json& drawn = ranks.json["drawn"][0];
  EXPECT_EQ(drawn["spaces"].size(), 2U);
  EXPECT_EQ(drawn["spaces"][0]["max_live"], 40);
  EXPECT_EQ(drawn["spaces"][0]["peak"], 1);
  EXPECT_EQ(drawn["axes"][0]["begin_us"], Json::parse("[500000, 1500000, 4500000]"));
  EXPECT_EQ(drawn["lanes"][0]["lanes"][0]["busy_us"], 3'000'000);
  EXPECT_TRUE(ranks.notes.empty());
}

// A run with another number of ranks may have left its folders there.
TEST_F(RankProfiles, FilesOfEarlierRunAreSkipped) {
  for (const int64_t rank : {0, 1, 2, 3})
    write(rank, span_line("comm", 0, 1 + static_cast<double>(rank), kOfTwo));
  EXPECT_EQ(read().json["rows"].size(), 4U);
  const RanksOnPage two = read(2);
  EXPECT_EQ(two.json["rows"].size(), 2U);
  EXPECT_TRUE(two.notes.empty());
  EXPECT_TRUE(read(1).json.is_null()) << "the run has a profile of its own, too";
}

TEST_F(RankProfiles, GroupsOfOtherSizeDoNotExchange) {
  write(0, span_line("comm", 0, 1, kOfTwo));
  write(2, span_line("comm", 0, 3, R"(,"axis":"dp","ranks":4,"stride":1)"));
  EXPECT_EQ(read().json["rows"][1]["waits_us"], 0);
}

TEST_F(RankProfiles, LastArrivalIsWaitedFor) {
  // Two exchanges: rank 0 is last in the first, rank 1 in the second.
  write(0, span_line("comm", 0, 1, kOfTwo) + span_line("comm", 5, 9, kOfTwo));
  write(1, span_line("comm", 0, 3, kOfTwo) + span_line("comm", 5, 5.5, kOfTwo));
  const RanksOnPage ranks = read();
  const Json &first = ranks.json["rows"][0], &second = ranks.json["rows"][1];
  EXPECT_EQ(first["waits_us"], 3'500'000);
  EXPECT_EQ(first["most_for"], Json::parse("[1, 3500000]"));
  EXPECT_EQ(first["caused_us"], 2'000'000);
  EXPECT_EQ(second["waits_us"], 2'000'000);
  EXPECT_EQ(second["most_for"], Json::parse("[0, 2000000]"));
}

// A mesh of 2 x 2: those that multiply together are neighbours, those that sum gradients are not.
TEST_F(RankProfiles, OnlyRanksOfOneGroupWaitForEachOther) {
  const std::string tp = R"(,"axis":"tp","ranks":2,"stride":1)",
                    dp = R"(,"axis":"dp","ranks":2,"stride":2)";
  const double tp_seconds[] = {1, 4, 2, 2}, dp_seconds[] = {1, 1, 7, 1};
  for (int64_t rank = 0; rank < 4; ++rank)
    write(rank, span_line("comm.tp", 0, tp_seconds[rank], tp) +
                    span_line("comm.dp", 10, 10 + dp_seconds[rank], dp));
  const RanksOnPage ranks = read();
  EXPECT_EQ(ranks.json["rows"][0]["waits_us"], 0);
  EXPECT_EQ(ranks.json["rows"][1]["most_for"], Json::parse("[0, 3000000]"));
  EXPECT_EQ(ranks.json["rows"][2]["most_for"], Json::parse("[0, 6000000]"));
  EXPECT_TRUE(ranks.json["rows"][3]["most_for"].is_null());
}

// Stages 0 and 1 of two pipelines: ranks 0 and 2, 1 and 3.
TEST_F(RankProfiles, MessagesAreBetweenTheirTwoEnds) {
  const auto to = [](int stage) {
    return fmt::format(R"(,"axis":"pp","ranks":2,"stride":2,"peer":{})", stage);
  };
  write(0, span_line("comm.pp", 3, 4, to(1)));
  write(1, span_line("comm.pp", 3, 4, to(1)));
  write(2, span_line("comm.pp", 0, 4, to(0)));
  write(3, span_line("comm.pp", 0, 9, to(0)));
  const RanksOnPage ranks = read();
  EXPECT_EQ(ranks.json["rows"][2]["most_for"], Json::parse("[0, 3000000]"));
  EXPECT_EQ(ranks.json["rows"][3]["most_for"], Json::parse("[1, 8000000]"));
}

TEST_F(RankProfiles, SingleRankAndOtherFoldersAreRefused) {
  write(0, span_line("compute", 0, 1));
  for (const char* name : {"profile/rank-01/spans.jsonl", "profile/rank-x/spans.jsonl",
                           "profile/rank--1/spans.jsonl", "profile/rank-2/other"})
    testing::write_bytes(dir_ / name, span_line("compute", 0, 1));
  EXPECT_TRUE(read().json.is_null());
  EXPECT_TRUE(read_ranks(dir_ / "nowhere", texts_, {}, 0).json.is_null());
}

TEST_F(RankProfiles, FirstAndLateRanksOfManyAreDrawn) {
  constexpr int64_t kAll = kMostRanks + 3;
  for (int64_t rank = 0; rank < kAll; ++rank) {
    const std::string with = fmt::format(R"(,"axis":"dp","ranks":{},"stride":1)", kAll);
    write(rank, span_line("comm", 0, rank == 200 ? 1 : 2, with));
  }
  const RanksOnPage ranks = read();
  EXPECT_EQ(std::ssize(ranks.json["rows"]), kMostRanks);
  ASSERT_EQ(std::ssize(ranks.json["drawn"]), kMostRanksDrawn);
  EXPECT_EQ(ranks.json["drawn"].front()["rank"], 0);
  EXPECT_EQ(ranks.json["drawn"].back()["rank"], 200);
  ASSERT_EQ(ranks.notes.size(), 2U);
  EXPECT_THAT(ranks.notes[0],
              ::testing::HasSubstr("Of 259 ranks that have a profile the first 256 are shown"));
  EXPECT_THAT(ranks.notes[1], ::testing::HasSubstr("Of 256 ranks 16 are drawn"));
}

TEST_F(RankProfiles, DrawingsOfAllRanksTogetherAreBounded) {
  std::string spans, memory;
  for (int i = 0; i < 6'000; ++i) {
    spans += span_line("compute", i, i + 0.5);
    memory += memory_line(i, fmt::format("\"grads\":{}", i == 4321 ? 5000 : i % 7));
  }
  for (const int64_t rank : {0, 1, 2}) write(rank, spans, memory);
  int64_t shown = 0, instants = 0;
  const RanksOnPage ranks = read();
  for (const Json& one : ranks.json["drawn"]) {
    shown += one["lanes"][0]["shown"].get<int64_t>();
    instants += one["axes"][0]["size"].get<int64_t>();
    EXPECT_EQ(one["spaces"][0]["max_live"], 5000) << "no peak is lost";
  }
  EXPECT_LE(shown, kMostSpans);
  EXPECT_LE(instants, kMostInstants);
}

TEST_F(RankProfiles, BrokenLinesAreCounted) {
  write(0, span_line("compute", 0, 1) + "what\n",
        memory_line(0, R"("params":-5,"grads":1e300,"other":7,"buffers":"x","comm":3)") +
            "[]\n{\"live\":7}\n");
  write(1, span_line("comm", 0, 1, R"(,"axis":7,"ranks":-1,"stride":0,"peer":1e300)") +
               span_line("comm", 0, 1, R"(,"axis":"dp","ranks":1000000000000,"stride":1e17)"));
  const RanksOnPage ranks = read();
  EXPECT_EQ(ranks.json["rows"][0]["peak_bytes"], 3);
  ASSERT_EQ(ranks.notes.size(), 1U);
  EXPECT_THAT(ranks.notes[0], ::testing::HasSubstr("3 lines of the ranks' profiles"));
}

TEST_F(RankProfiles, RunShowsAllRanksLanes) {
  for (const int64_t rank : {0, 1}) write(rank, span_line("compute", 0, 1));
  const Json subject = run_subject({.directory = dir_.path(), .steps = 3});
  EXPECT_EQ(subject["ranks"]["rows"].size(), 2U);
  EXPECT_TRUE(subject["lanes"].empty());
  EXPECT_THAT(subject["texts"], ::testing::Contains(Json("h.0.x")));
}

}  // namespace
}  // namespace snug
