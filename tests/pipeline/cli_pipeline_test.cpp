// snug train and plan with stages: processes over sockets.
#include "e2e/cli_fixture.h"

namespace snug {
namespace {

class CliPipeline : public Cli {
 protected:
  CliPipeline() {
    nlohmann::json config = tiny_config();
    config["num_hidden_layers"] = 4;
    write("deep/config.json", config.dump());
  }

  static constexpr const char* kTrain =
      "train deep --data text.txt --bytes --batch 2 --seq 16 --accum 5 --steps 4 --deterministic "
      "--holdout 0.2 --eval-every 2 --eval-batches 2 ";

  void expect_trained(const std::string& line) {
    const Ended run = snug(line);
    ASSERT_EQ(run.code, 0) << line << "\n" << run.err;
  }
  std::string model(const std::string& directory) const {
    return read_file(dir_.path() / directory / "model.safetensors");
  }
  // Of every step, and held-out ones.
  static std::vector<std::string> losses(const Ended& run) {
    std::vector<std::string> out;
    for (const std::string& line : split(run.out, '\n')) {
      const size_t at = line.find("loss ");
      if (at != std::string::npos && line.starts_with("step"))
        out.push_back(line.substr(at, line.find("  ", at) - at));
    }
    return out;
  }
};

TEST_F(CliPipeline, StagesTrainTheModelOfOneDevice) {
  const Ended one = snug(std::string(kTrain) + "--out one");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(losses(one).size(), 4U + 3U) << one.out;
  for (const int stages : {2, 4}) {
    const Ended run = snug(fmt::format("{}--pp {} --out stages-{}", kTrain, stages, stages));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(losses(run), losses(one));
    EXPECT_TRUE(model(fmt::format("stages-{}", stages)) == model("one")) << stages;
  }
  EXPECT_EQ(read_file(dir_.path() / "stages-2/config.json"),
            read_file(dir_.path() / "one/config.json"));
}

TEST_F(CliPipeline, StagesOfSeveralRanksTrainSameModel) {
  expect_trained(std::string(kTrain) + "--ranks 2 --zero 3 --zero-threshold 0 --out ranks");
  expect_trained(std::string(kTrain) + "--mesh pp=2,dp=2 --zero 3 --zero-threshold 0 --out mesh");
  EXPECT_TRUE(model("mesh") == model("ranks"));
}

TEST_F(CliPipeline, ResumesWithOtherStages) {
  const std::string train = std::string(kTrain) + "--save-every 2 --keep 5 --out ";
  expect_trained(train + "one");
  expect_trained(train + "stages --pp 2");
  const auto resumed = [&](const std::string& from, const std::string& options) {
    std::filesystem::remove_all(dir_.path() / "next");
    expect_trained("train --resume " + from + "/step-00000002 --out next" + options);
    return model("next");
  };
  EXPECT_TRUE(resumed("stages", "") == model("one")) << "two stages to one device";
  EXPECT_TRUE(resumed("one", " --pp 4") == model("one")) << "one device to four stages";
  EXPECT_TRUE(resumed("stages", " --pp 3") == model("one")) << "two stages to three";
  EXPECT_TRUE(resumed("stages", " --pp 2") == model("one")) << "two stages to two";
}

TEST_F(CliPipeline, SharedTableOnTwoStagesIsSavedOnce) {
  nlohmann::json config = tiny_config();
  config["tie_word_embeddings"] = true;
  write("tied/config.json", config.dump());
  const std::string train =
      "train tied --data text.txt --bytes --batch 2 --seq 16 --accum 3 --steps 3 --save-every 2 ";
  expect_trained(train + "--pp 2 --out stages");
  expect_trained(train + "--out one");
  EXPECT_EQ(model("stages").size(), model("one").size());
  expect_trained("train --resume stages/step-00000002 --pp 2 --out again");
  EXPECT_TRUE(model("again") == model("stages"));
  expect_trained("train --resume stages/step-00000002 --out alone");
  EXPECT_EQ(model("alone").size(), model("one").size());
}

TEST_F(CliPipeline, PlanShowsEachStage) {
  const Ended plan = snug("plan deep --batch 2 --seq 16 --accum 6 --device cpu --pp 2 --json");
  ASSERT_EQ(plan.code, 0) << plan.err;
  const nlohmann::json json = nlohmann::json::parse(plan.out);
  ASSERT_EQ(json["stages"].size(), 2U);
  EXPECT_EQ(json["stages"][0]["first_layer"], 0);
  EXPECT_EQ(json["stages"][1]["last_layer"], 3);
  EXPECT_EQ(json["stages"][0]["micro_batches_kept"], 2);
  EXPECT_EQ(json["stages"][1]["micro_batches_kept"], 1);
  // What every micro-batch sends is its activations, and in the other direction their gradients.
  const int64_t x = 2 * 16 * 24 * 4;
  EXPECT_GE(json["stages"][0]["sent_bytes"].get<int64_t>(), 6 * x);
  EXPECT_GT(json["bubble"].get<double>(), 0);
  const int64_t largest = std::max(json["stages"][0]["arena_bytes"].get<int64_t>(),
                                   json["stages"][1]["arena_bytes"].get<int64_t>());
  EXPECT_EQ(json["arena_bytes"], largest);
}

TEST_F(CliPipeline, GradientsOfWeightsMayWait) {
  const std::string job = "deep --batch 2 --seq 16 --accum 6 --device cpu --pp 2 --json";
  const auto planned = [&](const std::string& options) {
    const Ended plan = snug("plan " + job + options);
    EXPECT_EQ(plan.code, 0) << plan.err;
    return nlohmann::json::parse(plan.out);
  };
  const nlohmann::json plain = planned(""), waits = planned(" --pp-schedule zero-bubble");
  EXPECT_EQ(plain["recipe"]["pp-schedule"], "1f1b");
  EXPECT_EQ(waits["recipe"]["pp-schedule"], "zero-bubble");
  EXPECT_EQ(plain["stages"][1]["micro_batches_kept"], 1);
  EXPECT_EQ(waits["stages"][1]["micro_batches_kept"], 2);
  const std::string train = "train deep --data text.txt --bytes --batch 2 --seq 16 --accum 6 ";
  expect_trained(train + "--steps 4 --pp 2 --out plain");
  expect_trained(train + "--steps 4 --pp 2 --pp-schedule zero-bubble --save-every 2 --out waits");
  EXPECT_TRUE(model("waits") == model("plain"));
  expect_trained("train --resume waits/step-00000002 --pp 2 --pp-schedule 1f1b --out resumed");
  EXPECT_TRUE(model("resumed") == model("plain"));
  expect_trained("train --resume waits/step-00000002 --ranks 1 --out alone");
  EXPECT_TRUE(model("alone") == model("plain"));
}

TEST_F(CliPipeline, StagesMayHaveSeveralChunksOfLayers) {
  const std::string job = " deep --batch 2 --seq 16 --accum 6 --pp 2 ";
  const std::string chunks = "--pp-schedule interleaved:2 ";
  const Ended plan = snug("plan" + job + chunks + "--device cpu --json");
  ASSERT_EQ(plan.code, 0) << plan.err;
  const nlohmann::json stages = nlohmann::json::parse(plan.out)["stages"];
  EXPECT_EQ(stages[0]["layers"], "0+2");
  EXPECT_EQ(stages[1]["layers"], "1+3");
  EXPECT_EQ(stages[0]["micro_batches_kept"], 4);
  const std::string train = "train" + job + "--data text.txt --bytes --steps 4 ";
  expect_trained(train + "--out plain");
  expect_trained(train + chunks + "--save-every 2 --out chunks");
  EXPECT_TRUE(model("chunks") == model("plain"));
  expect_trained("train --resume chunks/step-00000002 --out again");
  EXPECT_TRUE(model("again") == model("plain"));
  expect_trained(
      "train --resume chunks/step-00000002 --pp 2 --pp-schedule zero-bubble --out other");
  EXPECT_TRUE(model("other") == model("plain"));
  expect_trained("train --resume chunks/step-00000002 --ranks 1 --out alone");
  EXPECT_TRUE(model("alone") == model("plain"));
  const Ended exported = snug("checkpoint chunks/step-00000002 --export exported");
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(model("exported").size(), model("plain").size());
}

// Neither 6 micro-batches nor 4 layers are right for two chunks on each of 4 stages.
TEST_F(CliPipeline, StagesHaveOwnOrder) {
  for (const int accum : {6, 8}) {
    const std::string train = fmt::format(
        "train deep --batch 2 --seq 16 --accum {} --pp 2 --data text.txt --bytes "
        "--steps 4 --overwrite ",
        accum);
    expect_trained(train + "--out plain");
    expect_trained(train + "--pp-schedule interleaved:2 --save-every 2 --out chunks");
    expect_trained("train --resume chunks/step-00000002 --pp 4 --overwrite --out four");
    EXPECT_TRUE(model("four") == model("plain")) << accum;
  }
}

// The last program of a step has backwards alone, and each is divided by the targets of the whole step.
TEST_F(CliPipeline, StepsDivideByOwnTargets) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines +=
        nlohmann::json{{"text", std::string(static_cast<size_t>(3 + 5 * i % 13), 'a')}}.dump() +
        "\n";
  write("texts.jsonl", lines);
  const std::string train =
      "train deep --batch 1 --seq 16 --accum 8 --data texts.jsonl --bytes --steps 3 ";
  const Ended one = snug(train + "--out one");
  ASSERT_EQ(one.code, 0) << one.err;
  for (const char* schedule : {"1f1b", "zero-bubble", "interleaved:2"}) {
    const Ended run =
        snug(fmt::format("{}--pp 2 --pp-schedule {} --overwrite --out stages", train, schedule));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(losses(run), losses(one)) << schedule;
    EXPECT_TRUE(model("stages") == model("one")) << schedule;
  }
}

TEST_F(CliPipeline, LargestBatchOfInterleavedStagesIsFound) {
  const std::string fit = "fit deep --seq 16 --budget 64MiB --device cpu --pp 2 --json ";
  const Ended found = snug(fit + "--pp-schedule interleaved:2");
  ASSERT_EQ(found.code, 0) << found.err;
  const nlohmann::json level = nlohmann::json::parse(found.out);
  EXPECT_EQ(level["accum"], 2);
  EXPECT_GT(level["batch"].get<int64_t>(), 8);
  expect_refused("fit deep --gpu h100x4 --budget 6GiB --pp-schedule interleaved:2", kUsage,
                 "fit with --pp-schedule interleaved:2: it takes micro-batches in multiples");
  expect_refused(fit + "--pp-schedule interleaved:2 --global-batch 24", kUsage,
                 "--of batch: of --global-batch 24, few sizes of a micro-batch");
}

TEST_F(CliPipeline, UnsupportedTechniquesAreRefused) {
  expect_refused("plan deep --pp-schedule zero-bubble", kUsage,
                 "--pp-schedule zero-bubble without stages");
  expect_refused("plan deep --pp 2 --pp-schedule gpipe", kUsage, "pp-schedule");
  for (const char* chunks : {"interleaved:1", "interleaved:V", "interleaved:", "interleaved:2x",
                             "interleaved:10001", "interleaved:4611686018427387905"})
    expect_refused(fmt::format("plan deep --pp 2 --accum 2 --pp-schedule {}", chunks), kUsage,
                   "it is interleaved:V, with 2 to 10,000 chunks");
  expect_refused("plan deep --pp 2 --accum 3 --pp-schedule interleaved:2", kUsage,
                 "a step has 3 micro-batches, no multiple of 2");
  write("ds.json", R"({"train_micro_batch_size_per_gpu": 2})");
  expect_refused("deepspeed ds.json deep --gpu h100 --ranks 2 --pp 2 --pp-schedule interleaved:2",
                 kUsage, "a step has 1 micro-batch, no multiple of 2");
  // As of a mesh that is searched: no other way to do it hides why.
  expect_refused("plan deep --gpu h100x4 --mesh pp=2,dp=2 --accum 8 --pp-schedule interleaved:9",
                 kUsage, "the model has 4 layers for 18 virtual stages");
  expect_refused("plan deep --pp 2 --accum 2 --pp-schedule interleaved:3", kUsage,
                 "the model has 4 layers for 6 virtual stages");
  expect_refused("plan deep --pp-schedule interleaved:2", kUsage, "without stages");
  expect_refused("plan deep --pp 5", kUsage, "--pp 5: the model has 4 layers");
  expect_refused("plan deep --pp 2 --accum 4 --micro-order vertical", kUsage,
                 "--micro-order vertical with --pp 2");
  expect_refused("plan deep --pp 2 --clip 0 --update-in-backward", kUsage,
                 "--update-in-backward with --pp 2");
  expect_refused("plan deep --pp 2 --offload activations", kUsage,
                 "--offload activations with --pp 2");
  expect_refused("plan deep --pp 2 --recompute auto:1MiB", kUsage,
                 "--recompute auto:1MiB with --pp 2");
}

}  // namespace
}  // namespace snug
