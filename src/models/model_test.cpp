#include "models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "base/error.h"
#include "base/text.h"
#include "models/families/catalogue.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Body>
std::string refusal(Body body, ExitCode code) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

// Counted by transformers from the published configurations.
TEST(Model, ParameterCountsMatchPublished) {
  const std::vector<std::pair<const char*, int64_t>> published{
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      {"gpt3-175b", 174'604'259'328},
      {"opt-125m", 125'239'296},
      {"opt-1.3b", 1'315'758'080},
      {"opt-2.7b", 2'651'596'800},
      {"opt-6.7b", 6'658'473'984},
      {"opt-13b", 12'853'473'280},
      {"opt-30b", 29'974'540'288},
      {"opt-66b", 65'719'701'504},
      {"bert-base", 109'514'298},
      {"bert-large", 335'174'458},
      {"llama-7b", 6'738'415'616},
      {"llama-8b", 8'030'261'248},
      {"llama-13b", 13'015'864'320},
      {"llama-30b", 32'528'943'616},
      {"llama-65b", 65'285'660'672},
      {"llama-70b", 68'976'648'192},
      {"llama3-70b", 70'553'706'496},
      {"llama-405b", 405'853'388'800},
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},
      {"qwen2.5-72b", 72'706'203'648},
      {"mistral-7b", 7'248'023'552},
      {"mistral-7b-v0.1", 7'241'732'096},
      {"smollm2-135m", 134'515'008},
      {"smollm2-360m", 361'821'120},
      {"smollm2-1.7b", 1'711'376'384},
      {"tinyllama", 1'100'048'384},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"olmo2-1b", 1'484'916'736},
      {"olmo2-7b", 7'298'617'344},
      {"olmo2-13b", 13'716'198'400},
      {"phi3-mini", 3'821'079'552},
      {"gemma3-1b", 999'885'952},
      {"gemma3-4b", 3'880'263'168},
      {"gemma3-12b", 11'766'034'176},
      {"gemma3-27b", 27'009'346'304},
      {"stablelm-3b", 2'795'443'200},
      {"stablelm2-1.6b", 1'644'515'328},
      {"pythia-160m", 162'322'944},
      {"pythia-410m", 405'334'016},
      {"pythia-1.4b", 1'414'647'808},
      {"pythia-2.8b", 2'775'208'960},
      {"pythia-6.9b", 6'857'302'016},
      {"pythia-12b", 11'846'072'320},
      {"gpt-neox-20b", 20'554'567'680},
      {"snug-tiny", 4'558'080},
  };
  for (const auto& [name, count] : published)
    EXPECT_EQ(Model::load(name).parameters(), count) << name;
  EXPECT_EQ(published.size(), catalogue().size());
}

TEST(Model, CatalogueNamesAreUniqueAndLoad) {
  std::set<std::string> seen;
  for (const std::string& name : catalogue_names()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    const Model m = Model::load(name);
    EXPECT_EQ(m.config().name, name);
    EXPECT_FALSE(m.has_weights());
    EXPECT_TRUE(m.source_dir().empty());
  }
}

TEST(Model, Llama405bHasItsPublishedShape) {
  const ModelConfig c = Model::load("llama-405b").config();
  EXPECT_EQ(c.L, 126);
  EXPECT_EQ(c.C, 16384);
  EXPECT_EQ(c.H, 128);
  EXPECT_EQ(c.K, 8);
  EXPECT_EQ(c.D, 128);
  const HfConfig hf = find_in_catalogue("llama-405b").value();
  const ModelParts parts = find_family(hf.model_type)->parts(hf);
  const parts::Rope rope = parts.stacks.at(0).block(0).attention.rope.value();
  EXPECT_EQ(rope.theta, 500000);
  EXPECT_EQ(rope.scaling.kind, ops::RopeScaling::Kind::llama3);
  EXPECT_EQ(rope.scaling.factor, 8);
  EXPECT_EQ(rope.scaling.original_positions, 8192);
}

TEST(Model, MlpIsExactlyItsLayers) {
  EXPECT_EQ(Model::load("mlp:64x3").parameters(), 3 * (64 * 64 + 64));
  EXPECT_EQ(Model::load("mlp:4096x48").parameters(), 48LL * (4096 * 4096 + 4096));
  for (const char* bad : {"mlp:", "mlp:0x3", "mlp:3x0", "mlp:foo", "mlp:4x", "mlp:x4", "mlp:4x4x4",
                          "mlp:-4x4", "mlp: 4x4", "mlp:99999999999999999999x2", "mlp:1048577x1"}) {
    EXPECT_THAT(refusal([&] { Model::load(bad); }, ExitCode::usage), HasSubstr("is not an MLP"))
        << bad;
  }
}

TEST(Model, UnknownNamesAreRefused) {
  EXPECT_THAT(refusal([] { Model::load("lama-7b"); }, ExitCode::usage),
              HasSubstr("did you mean 'llama-7b'?"));
  refusal([] { Model::load(""); }, ExitCode::usage);
  refusal([] { Model::load("no/such/dir"); }, ExitCode::bad_input);
  refusal([] { Model::load("missing.json"); }, ExitCode::bad_input);
}

TEST(Model, BadOptionsAreRefused) {
  const Model m = Model::load("gpt2");
  EXPECT_THAT(refusal([&] { m.forward({.batch = 0}); }, ExitCode::usage), HasSubstr("batch of 0"));
  EXPECT_THAT(refusal([&] { m.forward({.seq = -1}); }, ExitCode::usage),
              HasSubstr("sequence of -1"));
  EXPECT_THAT(refusal([&] { m.forward({.seq = 1025}); }, ExitCode::usage),
              HasSubstr("1024 positions"));
  EXPECT_THAT(refusal([&] { m.forward({.loss_chunk = 0}); }, ExitCode::usage),
              HasSubstr("chunks of 0"));
  EXPECT_THAT(refusal([&] { m.forward({.dropout = 1.0}); }, ExitCode::usage),
              HasSubstr("dropout is 1"));
  refusal([&] { m.forward({.batch = int64_t{1} << 62}); }, ExitCode::usage);
}

class ModelDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(::testing::TempDir()) / fmt::format("model_test.{}", getpid()) / "my-model";
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    write_file_atomically(dir_ / "config.json",
                          R"({"model_type": "gpt2", "n_layer": 2, "eos_token_id": 5})");
  }
  void TearDown() override { fs::remove_all(dir_.parent_path()); }
  fs::path dir_;
};

TEST_F(ModelDirectory, LoadsFromDirectoryOrFile) {
  for (const fs::path& path : {dir_, dir_ / "", dir_ / "config.json"}) {
    const Model m = Model::load(path.string());
    EXPECT_EQ(m.config().L, 2);
    EXPECT_TRUE(fs::equivalent(m.source_dir(), dir_));
    EXPECT_FALSE(m.has_weights());
    EXPECT_THAT(m.config_json(), HasSubstr("\"eos_token_id\": 5"));
  }
  EXPECT_EQ(Model::load(dir_.string()).config().name, "my-model");
}

TEST_F(ModelDirectory, SeesWeightsAndShards) {
  write_file_atomically(dir_ / "model.safetensors.index.json", "{}");
  EXPECT_TRUE(Model::load(dir_.string()).has_weights());
  fs::rename(dir_ / "model.safetensors.index.json", dir_ / "model.safetensors");
  EXPECT_TRUE(Model::load(dir_.string()).has_weights());
}

TEST(Model, AcceptsOtherTensorNames) {
  EXPECT_THAT(Model::load("gpt2").spellings("transformer.h.0.ln_1.weight"),
              ElementsAre("transformer.h.0.ln_1.weight", "h.0.ln_1.weight"));
  EXPECT_THAT(Model::load("bert-base").spellings("bert.embeddings.LayerNorm.bias"),
              ElementsAre("bert.embeddings.LayerNorm.bias", "embeddings.LayerNorm.bias",
                          "bert.embeddings.LayerNorm.beta", "embeddings.LayerNorm.beta"));
  EXPECT_THAT(Model::load("llama-7b").spellings("lm_head.weight"), ElementsAre("lm_head.weight"));
}

}  // namespace
}  // namespace snug
