// snug train over ranks that share matrices, as processes: what it saves is one device's model, and a
// run resumes over any other mesh.
#include <cmath>

#include "e2e/cli_fixture.h"
#include "formats/safetensors.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CliTensor : public Cli {
 protected:
  std::string train(const std::string& family, const std::string& out,
                    const std::string& more) const {
    return "train " + std::string(SNUG_TEST_DIR) + "/" + family +
           ".json --device cpu --data synthetic --batch 2 --seq 16 --steps 3 --optimizer sgd "
           "--lr 0.05 --holdout 0 --out " +
           out + more;
  }
  void expect_ends(const std::string& command) {
    const Ended run = snug(command);
    ASSERT_EQ(run.code, 0) << command << "\n" << run.err;
    said_ = run.out + run.err;
  }
  // The largest difference between weights of two models.
  double apart(const std::string& a, const std::string& b) {
    const SafetensorsFile one(dir_ / a / "model.safetensors"), two(dir_ / b / "model.safetensors");
    EXPECT_EQ(one.tensors().size(), two.tensors().size());
    double worst = 0;
    for (const TensorEntry& entry : one.tensors()) {
      const TensorEntry* other = two.find(entry.name);
      if (other == nullptr || other->shape != entry.shape) {
        ADD_FAILURE() << entry.name;
        continue;
      }
      const std::vector<float> x = floats(entry), y = floats(*other);
      for (size_t i = 0; i < x.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(x[i] - y[i])));
    }
    return worst;
  }
  std::string said_;

 private:
  static std::vector<float> floats(const TensorEntry& entry) {
    std::vector<float> out(static_cast<size_t>(entry.bytes) / sizeof(float));
    entry.read(0, std::as_writable_bytes(std::span(out)));
    return out;
  }
};

}  // namespace

TEST_F(CliTensor, SavedModelMatchesOneDevice) {
  for (const char* family : {"gpt2", "llama", "qwen2", "mistral", "bert"}) {
    SCOPED_TRACE(family);
    for (const char* out : {"one", "job"}) fs::remove_all(dir_ / out);
    expect_ends(train(family, "one", " --global-batch 4"));
    expect_ends(train(family, "job", " --tp 2 --global-batch 4"));
    EXPECT_THAT(said_, HasSubstr("planned and measured"));
    EXPECT_LT(apart("one", "job"), 1e-5);
  }
}

// Eight processes; of the key and value head four have the same.
TEST_F(CliTensor, ShardsOfPartsAreSaved) {
  expect_ends(train("qwen2", "one", " --global-batch 4"));
  expect_ends(
      train("qwen2", "job", " --mesh dp=2,tp=4 --zero 3 --zero-threshold 0 --global-batch 4"));
  EXPECT_LT(apart("one", "job"), 1e-5);
}

TEST_F(CliTensor, LoadedWeightsAreCut) {
  expect_ends(train("llama", "begun", ""));
  expect_ends(
      "train begun --data synthetic --device cpu --batch 2 --seq 16 --steps 2 "
      "--optimizer sgd --lr 0.05 --holdout 0 --out one");
  expect_ends(
      "train begun --data synthetic --device cpu --batch 2 --seq 16 --steps 2 "
      "--optimizer sgd --lr 0.05 --holdout 0 --out two --tp 4");
  EXPECT_LT(apart("one", "two"), 1e-5);
}

TEST_F(CliTensor, ResumesOnAnotherMesh) {
  const std::string saves = " --save-every 1 --keep 9 --global-batch 4";
  expect_ends(train("qwen2", "one", saves));
  expect_ends(train("qwen2", "job", " --mesh dp=2,tp=2 --zero 2 --zero-threshold 0" + saves));
  EXPECT_LT(apart("one", "job"), 1e-5);
  const auto goes_on = [&](const std::string& from, const std::string& how) {
    SCOPED_TRACE(from + how);
    fs::remove_all(dir_ / "on");
    expect_ends("train --resume " + from + "/step-00000001 --out on" + how);
    EXPECT_LT(apart("one", "on"), 1e-5);
  };
  goes_on("job", "");
  goes_on("job", " --tp 4");
  goes_on("job", " --ranks 2 --zero 3 --zero-threshold 0");
  goes_on("one", " --tp 2");
  expect_ends("checkpoint job --verify");
  expect_ends("checkpoint job/step-00000003 --export exported");
  EXPECT_LT(apart("one", "exported"), 1e-5);
}

TEST_F(CliTensor, PlansAndRefusals) {
  const Ended plan = snug("plan tiny --gpu h100x4 --tp 4 --batch 4 --seq 64");
  EXPECT_EQ(plan.code, 0) << plan.err;
  expect_refused("plan tiny --tp 2 --lora r=4", kUsage, "--tp 2 with --lora");
  expect_refused("plan tiny --tp 2 --optimizer adam-mini", kUsage, "with --optimizer adam-mini");
  expect_refused("plan tiny --tp 2 --update-in-backward --clip 0", kUsage, "--update-in-backward");
  expect_refused("plan gpt2 --tp 5 --seq 1000", kUsage, "12 attention heads do not divide");
  expect_refused("plan gpt2 --tp 2 --batch 1 --seq 15", kUsage, "1 x 15 tokens of a micro-batch");
  expect_refused("plan mlp:64x2 --tp 2", kUsage, "no transformer");
}

}  // namespace snug
