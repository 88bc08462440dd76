// Adapters as a person uses them: trained, resumed, merged, inspected; and what is refused.
#include "cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

class CliLora : public Cli {
 protected:
  // A trained model.
  void train_base(const std::string& config = tiny_config().dump()) {
    write("tiny/config.json", config);
    const Ended run = snug("train tiny" + how_ + " --steps 4 --out base");
    ASSERT_EQ(run.code, 0) << run.err;
  }
  Ended lora(const std::string& more) { return snug("train base" + how_ + " " + more); }
  std::string file(const std::string& name) { return read_file(dir_ / name); }
  double loss(const std::string& model) {
    const Ended run = snug("eval " + model + " --device cpu --data text.txt --seq 16 --json");
    EXPECT_EQ(run.code, 0) << run.err;
    return nlohmann::json::parse(run.out).at("loss");
  }
  void expect_refused(const std::string& more, ExitCode code, std::string_view sentence) {
    const Ended run = lora(more);
    EXPECT_EQ(run.code, static_cast<int>(code)) << more;
    EXPECT_THAT(run.err, HasSubstr(std::string(sentence))) << more;
  }

  const std::string how_ = " --device cpu --seq 16 --batch 2 --data text.txt --lr 0.01";
};

TEST_F(CliLora, TrainsMergesAndIsTheSameMerged) {
  train_base();
  const std::string before = file("base/model.safetensors");
  const Ended run = lora("--steps 6 --lora r=4,targets=q_proj+o_proj+down_proj --out adapter");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(file("base/model.safetensors"), before);
  const auto config = nlohmann::json::parse(file("adapter/adapter_config.json"));
  EXPECT_EQ(config.at("r"), 4);
  EXPECT_EQ(config.at("lora_alpha"), 8);
  EXPECT_EQ(config.at("target_modules"), nlohmann::json({"down_proj", "o_proj", "q_proj"}));
  ASSERT_EQ(snug("merge base --adapter adapter --out merged").code, 0);
  const double unmerged = loss("base --adapter adapter"), merged = loss("merged");
  EXPECT_NEAR(merged, unmerged, 1e-5 * unmerged);
  EXPECT_LT(unmerged, loss("base"));
  EXPECT_EQ(snug("sample base --device cpu --adapter adapter --prompt the --max-tokens 4").code, 0);
}

TEST_F(CliLora, ResumesExactly) {
  train_base();
  const std::string how = "--steps 6 --save-every 2 --keep 9 --lora r=3,dropout=0.1";
  ASSERT_EQ(lora(how + " --out a").code, 0);
  for (const char* more : {"", " --recompute full", " --offload all"}) {
    std::filesystem::remove_all(dir_ / "b");
    const Ended run = snug(std::string("train --resume a/step-00000002 --out b") + more);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(file("a/adapter_model.safetensors"), file("b/adapter_model.safetensors")) << more;
  }
  // What is frozen is no part of a checkpoint.
  EXPECT_LT(file("a/step-00000006/state.safetensors").size(),
            file("base/model.safetensors").size());
  ASSERT_EQ(snug("checkpoint a/step-00000006 --export c").code, 0);
  EXPECT_EQ(file("a/adapter_model.safetensors"), file("c/adapter_model.safetensors"));
  std::filesystem::rename(dir_ / "base", dir_ / "moved");
  const Ended gone = snug("train --resume a/step-00000002 --out b --overwrite");
  EXPECT_EQ(gone.code, static_cast<int>(kBadInput));
  EXPECT_THAT(gone.err, HasSubstr("the base model of its adapter"));
  EXPECT_EQ(snug("train moved --resume a/step-00000002 --out b --overwrite --resume-changed").code,
            0);
  EXPECT_EQ(file("a/adapter_model.safetensors"), file("b/adapter_model.safetensors"));
  std::filesystem::rename(dir_ / "moved", dir_ / "base");
  const Ended further = lora("--steps 1 --adapter a");
  EXPECT_EQ(further.code, 0) << further.err;
  EXPECT_THAT(further.err, HasSubstr("adapter: loaded from a"));
}

TEST_F(CliLora, FourBitBaseIsPlannedAndExact) {
  auto config = tiny_config();
  config["hidden_size"] = 64;
  config["intermediate_size"] = 96;
  train_base(config.dump());
  for (const char* base : {"nf4", "int8"}) {
    const std::string how = std::string("--steps 3 --lora r=2 --base-dtype ") + base;
    ASSERT_EQ(lora(how + " --out a --overwrite").code, 0);
    for (const char* more : {" --recompute full", " --offload all", " --accum 1 --threads 1"}) {
      const Ended run = lora(how + " --out b --overwrite" + more);
      ASSERT_EQ(run.code, 0) << run.err;
      EXPECT_THAT(run.err, HasSubstr("planned and measured")) << more;
      EXPECT_EQ(file("a/adapter_model.safetensors"), file("b/adapter_model.safetensors")) << more;
    }
  }
}

// Tensors without whole blocks stay as they are.
TEST_F(CliLora, EvaluatesWithFourBitBase) {
  train_base();
  ASSERT_EQ(lora("--steps 2 --lora r=2 --base-dtype nf4 --out a").code, 0);
  EXPECT_EQ(
      snug("eval base --device cpu --data text.txt --seq 16 --adapter a --base-dtype nf4").code, 0);
}

TEST_F(CliLora, MeaninglessOptionsAreRefused) {
  train_base();
  expect_refused("--lora r=4,targets=gate", kUsage, "no linear layer of 'base' is called that");
  expect_refused("--lora r=0", kUsage, "r is between 1 and 4096");
  expect_refused("--base-dtype nf4", kUsage, "is for weights that are not trained");
  expect_refused("--adapter nowhere", kBadInput, "nowhere/adapter_config.json");
  ASSERT_EQ(lora("--steps 1 --lora r=4 --out adapter").code, 0);
  expect_refused("--adapter adapter --lora r=8", kUsage, "leave --lora out");
  expect_refused("--steps 1 --lora r=4 --out adapter", kUsage, "is the directory of another run");
  EXPECT_EQ(snug("merge base --adapter adapter --out base").code, static_cast<int>(kUsage));
}

TEST_F(CliLora, AdapterOfAnotherBaseIsRefused) {
  train_base();
  ASSERT_EQ(lora("--steps 1 --lora r=4 --out adapter").code, 0);
  auto wider = tiny_config();
  wider["hidden_size"] = 32;
  auto deeper = tiny_config();
  deeper["num_hidden_layers"] = 3;
  auto shallow = tiny_config();
  shallow["num_hidden_layers"] = 1;
  for (const auto& config : {wider, deeper, shallow}) {
    std::filesystem::remove_all(dir_ / "base");
    train_base(config.dump());
    const Ended run = lora("--adapter adapter --steps 1");
    EXPECT_EQ(run.code, static_cast<int>(kBadInput)) << run.err;
    EXPECT_THAT(run.err, HasSubstr("adapter/adapter_model.safetensors"));
    if (config == deeper) continue;  // which holds all of it
    EXPECT_EQ(snug("merge base --adapter adapter --out merged").code, static_cast<int>(kBadInput));
  }
}

TEST_F(CliLora, BrokenAdaptersAreRefused) {
  train_base();
  write("bad/adapter_config.json", R"({"peft_type": "LORA", "r": 4)");
  expect_refused("--adapter bad", kBadInput, "bad/adapter_config.json");
  write("bad/adapter_config.json", R"({"r": 4, "target_modules": ["q_proj"], "use_dora": true})");
  expect_refused("--adapter bad", kBadInput, "use_dora is true");
  write("bad/adapter_config.json", R"({"r": 4, "target_modules": ["q_proj"]})");
  write("bad/adapter_model.safetensors", "no weights");
  expect_refused("--adapter bad", kBadInput, "bad/adapter_model.safetensors");
}

}  // namespace
}  // namespace snug
