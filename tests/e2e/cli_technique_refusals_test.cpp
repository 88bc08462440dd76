// Memory techniques asked for in a way that cannot be: what is wrong, what would be right, and
// nothing half-written.
#include "base/units.h"
#include "cli_fixture.h"

namespace snug {
namespace {

constexpr auto kDoesNotFit = ExitCode::does_not_fit;

class CliTechniqueRefusals : public Cli {
 protected:
  // Train refuses it before anything happens, and plan in the same way.
  void expect_bad(const std::string& options, const std::string& part,
                  const std::string& hint = "") {
    expect_refused("train tiny --data text.txt --out o --seq 16 " + options, kUsage, part, hint);
    expect_refused("plan tiny --seq 16 " + options, kUsage, part, hint);
  }
  // The number of bytes after "needs at least".
  static int64_t least_in(const Ended& run) {
    const size_t from = run.err.find('(', run.err.find("needs at least ")) + 1;
    std::string digits;
    for (size_t at = from; at < run.err.size() && run.err[at] != ' '; ++at)
      if (run.err[at] != ',') digits += run.err[at];
    return std::stoll(digits);
  }
};

TEST_F(CliTechniqueRefusals, HostUpdates) {
  expect_bad("--host-update some", "--host-update 'some': 'some' is not a layer",
             "none, all, or layers like 0-11+15");
  expect_bad("--host-update all", "no layer has all of its optimizer's state in host memory",
             "--offload optimizer moves it there");
  expect_bad("--offload optimizer@0 --host-update 0-1",
             "--host-update 0-1: 'optimizer' of layer 1 is on the device, not in host memory",
             "--offload optimizer@0-1 moves it there");
  expect_bad("--precision bf16 --offload optimizer --host-update all",
             "no layer has all of its optimizer's state in host memory",
             "--offload optimizer,master moves it there");
  expect_bad("--offload optimizer --host-update 2", "--host-update 2: layer 2, but the model has 2",
             "layers are counted from 0");
  expect_bad("--optimizer sgd --momentum 0 --offload optimizer --host-update all",
             "sgd without momentum or masters keeps nothing");
}

TEST_F(CliTechniqueRefusals, OffloadPrefetch) {
  expect_bad("--offload optimizer --offload-ahead 9",
             "--offload-ahead is 9; it must be between 0 and 8");
  expect_bad("--offload optimizer --offload-ahead -1",
             "--offload-ahead is -1; it must be between 0 and 8");
}

TEST_F(CliTechniqueRefusals, RecomputePolicies) {
  expect_bad("--recompute ful", "--recompute 'ful' is not none, full, every:N, sqrt, ");
  expect_bad("--recompute ful", "did you mean 'full'?");
  expect_bad("--recompute evry:2", "did you mean 'every'?");
  expect_bad("--recompute full:2", "--recompute 'full:2' is not none, full, ");
  expect_bad("--recompute every:0", "--recompute every:0: a segment has at least one layer");
  expect_bad("--recompute every:x", "--recompute 'every:x' is not ");
  for (const std::string ratio : {"1.5", "-1", "nan", "inf"})
    expect_bad("--recompute ratio:" + ratio,
               "--recompute ratio:" + ratio + ": a ratio is between 0 and 1");
  expect_bad("--recompute list:0,7",
             "--recompute list names layer 7, but the model has layers 0 to 1");
  expect_bad("--recompute list:1-0", "'1-0' is not a layer or a range of layers");
  expect_bad("--recompute list:", "'' is not a layer or a range of layers");
  expect_bad("--recompute auto:nonsense",
             "--recompute 'auto:nonsense': 'nonsense' is not an amount of memory", "24GiB");
}

TEST_F(CliTechniqueRefusals, RecomputeBudgetBelowMinimum) {
  const std::string train = "train tiny --data text.txt --seq 16 --steps 1 --recompute auto:";
  expect_refused(train + "1KB", kDoesNotFit, "however much it recomputes");
  const int64_t least = least_in(snug(train + "1KB"));
  expect_refused(train + "1KB", kDoesNotFit, "--recompute auto allows 1000 B",
                 fmt::format("--recompute auto:{}, ", least));
  expect_refused(
      train + std::to_string(least - 1), kDoesNotFit,
      fmt::format("needs at least {} ({} bytes)", format_bytes(least), format_exact(least)));
  const Ended run = snug(train + std::to_string(least) + " --json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_LE(lines_of(run)[0]["planned_bytes"], least);
}

TEST_F(CliTechniqueRefusals, BudgetBelowMinimum) {
  const std::string train =
      "train tiny --data text.txt --seq 16 --steps 1 --json --accum 1 --attention flash "
      "--loss chunked --budget ";
  const int64_t least = least_in(snug(train + "470KB"));
  expect_refused(train + std::to_string(least - 1), kDoesNotFit,
                 fmt::format("needs at least {} ({} bytes) and the budget is ", format_bytes(least),
                             format_exact(least)));
  const Ended exact = snug(train + std::to_string(least));
  ASSERT_EQ(exact.code, 0) << exact.err;
  EXPECT_EQ(lines_of(exact)[0]["peak_bytes"], least) << "measured";

  const std::string err = snug(train + "470KB").err;
  const std::string begin = "it would fit with ";
  ASSERT_THAT(err, ::testing::HasSubstr(begin));
  const std::string hint = std::string(trim(err.substr(err.find(begin) + begin.size())));
  int tried = 0;
  for (size_t at = 0; at < hint.size();
       at = std::min(hint.size(), hint.find("--", hint.find(')', at)))) {
    const std::string change = hint.substr(at, hint.find(" (", at) - at);
    const Ended run = snug(train + "470KB " + change);
    EXPECT_EQ(run.code, 0) << change << "\n" << run.err;
    EXPECT_LE(lines_of(run)[0]["peak_bytes"], 470'000) << change;
    ++tried;
  }
  EXPECT_GE(tried, 2) << hint;
}

TEST_F(CliTechniqueRefusals, SearchedMicroBatchesAvoidRefusal) {
  const std::string train =
      "train tiny --data text.txt --seq 16 --batch 8 --steps 1 --json --budget 470KB";
  expect_refused(train + " --accum 1 --attention flash --loss chunked", kDoesNotFit, "needs at");
  const Ended run = snug(train);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(lines_of(run)[0]["tokens"], 8 * 16);
  EXPECT_LE(lines_of(run)[0]["peak_bytes"], 470'000);
}

TEST_F(CliTechniqueRefusals, Optimizers) {
  expect_bad("--optimizer adma", "did you mean 'adamw'?");
  expect_bad("--optimizer adamw8bit --state-dtype bf16",
             "--optimizer adamw8bit keeps its moments in 8 bits: --state-dtype bf16 is not a type",
             "--optimizer adamw --state-dtype bf16");
  expect_bad("--state-dtype int8", "--state-dtype 'int8' is not one of fp32, bf16");
  expect_bad("--optimizer sgd --momentum 1", "--momentum is 1; it must be between 0 and");
  expect_bad("--lr-scale linear", "--lr-scale linear needs --base-batch");
  expect_bad("--lr-scale cubic --base-batch 4",
             "--lr-scale 'cubic' is not one of none, linear, sqrt");
}

TEST_F(CliTechniqueRefusals, UpdatesInBackward) {
  expect_bad("--update-in-backward", "clipping by the global norm (--clip 1) needs every gradient",
             "give --clip 0");
  expect_bad("--update-in-backward --clip 0 --precision fp16",
             "a dynamic loss scale (--loss-scale dynamic:65536) skips a whole step",
             "give a fixed --loss-scale");
  const Ended run = snug(
      "train tiny --data text.txt --seq 16 --steps 2 --update-in-backward --clip 0 "
      "--precision fp16 --loss-scale 1024");
  EXPECT_EQ(run.code, 0) << "the hints hold: " << run.err;
}

TEST_F(CliTechniqueRefusals, Precisions) {
  expect_bad("--precision fp8", "--precision 'fp8' is not one of auto, fp32, bf16, fp16");
  expect_bad("--precision bf16 --grad-dtype fp16",
             "--grad-dtype fp16 under --precision bf16: gradients are in fp32 or in the type");
  expect_bad("--precision bf16 --master bf16", "--master 'bf16' is not one of fp32, none");
  expect_bad("--loss-scale 0.5", "--loss-scale 0.5: a scale is at least 1 and finite");
  expect_bad("--loss-scale 1e39", "--loss-scale 1e39: a scale is at least 1 and finite");
  for (const std::string scale : {"nonsense", "dynamic:", "dynamic:x", "dynamics", "dynamicx2"})
    expect_bad("--loss-scale " + scale, "--loss-scale '" + scale + "' is not auto, none, dynamic");
  expect_bad("--loss-scale-interval 0", "--loss-scale-interval is 0; it must be at least 1");
}

TEST_F(CliTechniqueRefusals, ChunksAndCompression) {
  expect_bad("--attention chunked:0", "--attention 'chunked:0': '0' is not a number of queries");
  expect_bad("--attention chunked:", "--attention 'chunked:': '' is not a number of queries");
  expect_bad("--attention chunk", "did you mean 'chunked'?");
  expect_bad("--loss chunked:-3", "--loss 'chunked:-3': '-3' is not a number of tokens");
  expect_bad("--compress int4", "--compress 'int4' is not one of none, int8");
}

TEST_F(CliTechniqueRefusals, GlobalBatches) {
  expect_bad("--batch 4 --global-batch 10 --accum 2",
             "--global-batch 10 takes 3 micro-batches of --batch 4, but --accum is 2",
             "leave one of --accum and --global-batch out");
  expect_bad("--global-batch -1", "--global-batch is -1; it must be at least 0");
  const Ended run =
      snug("train tiny --data text.txt --seq 16 --steps 1 --batch 4 --global-batch 10 --accum 3");
  EXPECT_EQ(run.code, 0) << run.err;
}

}  // namespace
}  // namespace snug
