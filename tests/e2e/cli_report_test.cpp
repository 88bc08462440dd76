// snug report as typed: pages of plans, runs and snapshots, what they say, and what is refused.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

class CliReport : public Cli {
 protected:
  // The document that a page draws.
  nlohmann::json document(const std::string& page) {
    const std::string html = read_file(dir_ / page);
    const size_t begin = html.find("id=\"data\">") + 10;
    return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  }
  nlohmann::json subject(const std::string& line, const std::string& page = "page.html") {
    const Ended run = snug("report " + line + " -o " + page + " --overwrite");
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("page: " + page));
    return document(page)["subjects"][0];
  }
  void train(const std::string& more = "") {
    const Ended run =
        snug("train tiny --data text.txt --batch 2 --seq 32 --steps 6 --out runs/a" + more);
    ASSERT_EQ(run.code, 0) << run.err;
  }
  static std::string pickle(const std::string& name) {
    return (std::filesystem::path(SNUG_TEST_DIR).parent_path() / "snapshots" / (name + ".pickle"))
        .string();
  }
};

TEST_F(CliReport, PlanPageHasBytesOfPlan) {
  const nlohmann::json page = subject("tiny --batch 2 --seq 32");
  const nlohmann::json plan =
      nlohmann::json::parse(snug("plan tiny --batch 2 --seq 32 --json").out);
  EXPECT_EQ(page["kind"], "plan");
  EXPECT_EQ(page["spaces"][0]["arena"], plan["arena_bytes"]);
  EXPECT_EQ(page["spaces"][0]["max_live"], plan["max_live_bytes"]);
  EXPECT_EQ(page["command"], "snug plan tiny --batch 2 --seq 32");
  EXPECT_FALSE(page["advice"]["rows"].empty());
  EXPECT_EQ(page["lanes"][0]["origin"], "predicted");
}

TEST_F(CliReport, PageIsNamedAfterSubjectWithoutOverwriting) {
  const Ended run = snug("report tiny --batch 2 --seq 32");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("page: tiny.html"));
  expect_refused("report tiny --batch 2 --seq 32", kUsage, "tiny.html exists", "--overwrite");
  EXPECT_EQ(snug("report tiny --batch 4 --seq 32 --overwrite").code, 0);
  EXPECT_EQ(document("tiny.html")["subjects"][0]["command"], "snug plan tiny --batch 4 --seq 32");
}

TEST_F(CliReport, RunPageHasHistoryPlanAndMeasurements) {
  train(" --profile --holdout 0.2 --eval-every 3");
  const nlohmann::json page = subject("runs/a");
  EXPECT_EQ(page["kind"], "run");
  EXPECT_EQ(page["answer"]["verdict"], "trained");
  EXPECT_EQ(page["history"]["step"].size(), 6U);
  EXPECT_EQ(page["history"]["evals"].size(), 3U);
  EXPECT_EQ(page["history"]["allocated_bytes"][5], page["spaces"][0]["arena"]);
  ASSERT_EQ(page["lanes"].size(), 2U);
  EXPECT_EQ(page["lanes"][1]["origin"], "measured");
  EXPECT_TRUE(page["notes"].empty()) << page["notes"];
  EXPECT_THAT(page["command"].get<std::string>(),
              ::testing::EndsWith("/tiny --batch 2 --seq 32 --dropout 0"));
  // What --profile exports is read back with the same peak.
  const nlohmann::json exported = subject("runs/a/profile/snapshot.pickle");
  EXPECT_EQ(exported["spaces"][0]["max_live"], page["spaces"][0]["max_live"]);
}

TEST_F(CliReport, UnfinishedRunIsReported) {
  train();
  const int fd = ::open((dir_ / "runs/a/.snug-lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const nlohmann::json page = subject("runs/a");
  ::close(fd);
  EXPECT_EQ(page["answer"]["verdict"], "still training");
  EXPECT_THAT(page["notes"][0].get<std::string>(), HasSubstr("still going"));
}

TEST_F(CliReport, RunWithoutCheckpointHasHistoryOnly) {
  write("runs/b/history.jsonl", "{\"step\":1,\"loss\":5.5}\n{\"step\":2,\"loss\":5.25}\n{\"st");
  const nlohmann::json page = subject("runs/b");
  EXPECT_EQ(page["history"]["last_loss"], 5.25);
  EXPECT_TRUE(page["spaces"].empty());
  EXPECT_THAT(page["notes"][0].get<std::string>(), HasSubstr("no checkpoint yet"));
}

TEST_F(CliReport, RunWithoutHistoryHasPlanAndNote) {
  train();
  std::filesystem::remove(dir_ / "runs/a/history.jsonl");
  const nlohmann::json page = subject("runs/a");
  EXPECT_EQ(page["answer"]["text"], "saved at step 6 of 6");
  EXPECT_FALSE(page["spaces"].empty());
  EXPECT_THAT(page["notes"].dump(), HasSubstr("no history.jsonl"));
  write("runs/none/latest", "step-00000100\n");
  expect_refused("report runs/none", kBadInput, "has neither history.jsonl nor a checkpoint");
}

TEST_F(CliReport, PageNeverReplacesItsSubject) {
  write("runs/b/history.jsonl", "{\"step\":1,\"loss\":5.5}\n");
  write("own.pickle", read_file(pickle("cpp")));
  const std::string history = read_file(dir_ / "runs/b/history.jsonl");
  expect_refused("report runs/b --overwrite -o runs/b/history.jsonl", kUsage, "belongs to runs/b");
  expect_refused("report own.pickle --overwrite -o ./own.pickle", kUsage, "belongs to own.pickle");
  expect_refused("report runs/b --overwrite -o /dev/null", kUsage, "no file that a page could");
  expect_refused("report runs/b --overwrite -o runs", kUsage, "no file that a page could");
  EXPECT_EQ(read_file(dir_ / "runs/b/history.jsonl"), history);
  EXPECT_EQ(subject("runs/b", "runs/b/page.html")["kind"], "run");
  EXPECT_EQ(subject("runs/b", "runs/b/page.html")["kind"], "run");  // its own page it replaces
}

TEST_F(CliReport, NamesAreEscapedAndDotsResolved) {
  write("runs/b/history.jsonl", "{\"step\":1,\"loss\":5.5}\n");
  EXPECT_THAT(snug("report runs/b/.").out, HasSubstr("page: b.html"));
  EXPECT_THAT(snug("report runs/b/../b/ --overwrite").out, HasSubstr("page: b.html"));
  const std::string hostile = "runs/\x1b[31m\xff";
  write(hostile + "/history.jsonl", "{\"step\":1,\"loss\":5.5}\n");
  const Ended shown = snug("report " + hostile + " -o first.html");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("runs/\\x1b[31m\\xff: stopped"));
  const Ended json = snug("report " + hostile + " --json -o second.html");
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_EQ(nlohmann::json::parse(json.out)["page"], "second.html");
}

TEST_F(CliReport, SnapshotPageHasOwnersOfInspect) {
  for (const std::string name : {"gpt2", "cpp", "bare", "leak", "oom"}) {
    SCOPED_TRACE(name);
    const nlohmann::json page = subject(pickle(name));
    const nlohmann::json device =
        nlohmann::json::parse(snug("inspect " + pickle(name) + " --json").out)["devices"][0];
    EXPECT_EQ(page["spaces"][0]["max_live"], device["peak"]["allocated_bytes"]);
    EXPECT_EQ(page["tables"].size(), name == "leak" ? 1U : 0U);
    EXPECT_EQ(page["answer"]["verdict"] == "ran out of memory", name == "oom");
  }
}

TEST_F(CliReport, ModelAddsCostToSnapshotRemedies) {
  const std::string config =
      (std::filesystem::path(SNUG_TEST_DIR).parent_path() / "snapshots/config.json").string();
  const nlohmann::json page =
      subject(pickle("oom") + " --model " + config + " --batch 4 --seq 64 --gpu h200");
  const nlohmann::json& rows = page["advice"]["rows"];
  ASSERT_FALSE(rows.empty());
  EXPECT_TRUE(std::ranges::any_of(rows, [](const auto& row) {
    return row.contains("time_ratio") &&
           row["command"].template get<std::string>().starts_with("snug plan ");
  })) << rows;
}

TEST_F(CliReport, TwoAreSideBySide) {
  train();
  const Ended run = snug("report runs/a --against tiny --batch 4 --seq 32 -o two.html");
  EXPECT_EQ(run.code, 0) << run.err;
  const nlohmann::json subjects = document("two.html")["subjects"];
  ASSERT_EQ(subjects.size(), 2U);
  EXPECT_EQ(subjects[0]["kind"], "run");
  EXPECT_EQ(subjects[1]["kind"], "plan");
  EXPECT_EQ(subjects[1]["command"], "snug plan tiny --batch 4 --seq 32");
}

TEST_F(CliReport, InvalidSubjectIsRefusedInOneSentence) {
  write("runs/empty/history.jsonl", "");
  write("runs/other/history.jsonl", "hello\n");
  write("runs/half.pickle", read_file(pickle("cpp")).substr(0, 5000));
  write("folder/notes.txt", "x");
  expect_refused("report", kUsage, "needs a model, the directory of a run, or a snapshot");
  expect_refused("report runs/empty", kBadInput, "is empty: the run has done no step");
  expect_refused("report runs/other", kBadInput, "has no line of a step");
  expect_refused("report runs/half.pickle", kBadInput, "runs/half.pickle");
  expect_refused("report folder", kBadInput, "folder");
  expect_refused("report tiny --against runs/none.pickle", kBadInput, "runs/none.pickle");
  expect_refused("report " + pickle("cpp") + " --batch 3", kUsage, "--batch has no use");
  expect_refused("report tiny --model gpt2", kUsage, "--model has no use");
  expect_refused("report tiny -o missing/page.html", kBadInput, "missing");
}

}  // namespace
}  // namespace snug
