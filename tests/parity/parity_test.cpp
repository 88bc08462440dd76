// Parity with PyTorch in fp32: loss, logits, every gradient tensor, and a 20-step AdamW curve with
// clipping, against the values that reference.py stored.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "formats/safetensors.h"
#include "formats/safetensors_checkpoint.h"
#include "support/small_run.h"
#include "train/checkpoint.h"

namespace snug {
namespace {

std::vector<float> floats(const SafetensorsFile& file, const std::string& name) {
  const TensorEntry* entry = file.find(name);
  if (entry == nullptr) throw internal_error("the reference has no tensor '{}'", name);
  std::vector<float> out(entry->data.size() / sizeof(float));
  std::memcpy(out.data(), entry->data.data(), entry->data.size());
  return out;
}

struct Distance {
  double difference = 0, reference = 0;  // L2 norms
};
Distance distance(std::span<const float> got, std::span<const float> want) {
  Distance d;
  for (size_t i = 0; i < want.size(); ++i) {
    const double delta = static_cast<double>(got[i]) - static_cast<double>(want[i]);
    d.difference += delta * delta;
    d.reference += static_cast<double>(want[i]) * static_cast<double>(want[i]);
  }
  return {std::sqrt(d.difference), std::sqrt(d.reference)};
}

struct Case {
  const char* family;
  ops::AttentionKind attention;
  bool chunked_loss;
};

// A run of the stored model on the stored batch, in the stored shape.
class Parity : public testing::TestWithParam<Case> {
 protected:
  Parity()
      : dir_(tests_dir() + "/parity/" + GetParam().family),
        reference_(dir_ + "/reference.safetensors"),
        shape_(reference_.find("tokens")->shape),
        run_(dir_, {.batch = shape_[0],
                    .seq = shape_[1],
                    .attention = GetParam().attention,
                    .chunked_loss = GetParam().chunked_loss,
                    .loss_chunk = 20}) {
    const Model model = Model::load(dir_);
    load_model(
        run_.module(), [&](ValueId id) { return run_.executor().bytes(id); },
        CheckpointReader(dir_), [&](std::string_view name) { return model.spellings(name); });
    run_.feed(0);
  }

  // Row `step` of a stored [steps, B, T] tensor, or all of a [B, T] one, into a shared input.
  void feed(const std::string& tensor, std::string_view input, int64_t step = 0) {
    const auto to = run_.executor().bytes(run_.executor().shared(input));
    std::memcpy(to.data(),
                reference_.find(tensor)->data.data() + step * static_cast<int64_t>(to.size()),
                to.size());
  }
  double mean_loss() {
    const double sum = run_.executor().scalar<float>(run_.executor().shared("loss_sum"));
    return sum / static_cast<double>(shape_.elements());
  }

  std::string dir_;
  SafetensorsFile reference_;
  Shape shape_;
  SmallRun run_;
};

TEST_P(Parity, LossAndEveryGradient) {
  feed("tokens", "tokens");
  feed("targets", "targets");
  run_.executor().run("micro_first");
  const double want = floats(reference_, "loss")[0];
  EXPECT_NEAR(mean_loss(), want, 1e-5 * want);

  double global = 0;
  for (const TensorEntry& entry : reference_.tensors()) {
    if (!entry.name.starts_with("grad.")) continue;
    for (const float g : floats(reference_, entry.name))
      global += static_cast<double>(g) * static_cast<double>(g);
  }
  global = std::sqrt(global);
  size_t compared = 0;
  for (const SavedTensor& tensor : saved_tensors(run_.module())) {
    if (reference_.find("grad." + tensor.name) == nullptr) {
      ADD_FAILURE() << "PyTorch has no gradient of " << tensor.name;
      continue;
    }
    const std::vector<float> want_grad = floats(reference_, "grad." + tensor.name);
    const ValueId grad = run_.executor().shared("grad." + run_.module()[tensor.value].name);
    const auto got = run_.executor().values<float>(grad).subspan(
        static_cast<size_t>(tensor.offset) / sizeof(float), want_grad.size());
    const Distance d = distance(got, want_grad);
    EXPECT_LE(d.difference, std::max(1e-5 * d.reference, 1e-7 * global))
        << tensor.name << ", norm " << d.reference << " of " << global;
    ++compared;
  }
  const auto stored =
      std::count_if(reference_.tensors().begin(), reference_.tensors().end(),
                    [](const TensorEntry& e) { return e.name.starts_with("grad."); });
  EXPECT_EQ(compared, static_cast<size_t>(stored))
      << "every gradient that PyTorch has was compared";
}

TEST_P(Parity, EvaluationGivesTheSameLoss) {
  feed("tokens", "tokens");
  feed("targets", "targets");
  run_.executor().run("eval");
  const double want = floats(reference_, "loss")[0];
  EXPECT_NEAR(mean_loss(), want, 1e-5 * want);
}

TEST_P(Parity, TwentyStepsOfAdamWWithClipping) {
  const std::vector<float> losses = floats(reference_, "curve.losses");
  const std::vector<float> norms = floats(reference_, "curve.norms");
  ASSERT_EQ(losses.size(), 20U);
  for (int64_t step = 0; step < 20; ++step) {
    feed("curve.tokens", "tokens", step);
    feed("curve.targets", "targets", step);
    run_.executor().run("micro_first");
    run_.executor().run("update");
    const auto at = static_cast<size_t>(step);
    EXPECT_NEAR(mean_loss(), losses[at], 1e-4 * losses[at]) << "step " << step;
    const float norm = run_.executor().scalar<float>(run_.executor().shared("grad_norm"));
    EXPECT_NEAR(norm, norms[at], 1e-3 * norms[at]) << "step " << step;
  }
}

constexpr auto kStandard = ops::AttentionKind::standard;
constexpr auto kFlash = ops::AttentionKind::flash;
INSTANTIATE_TEST_SUITE_P(Models, Parity,
                         testing::Values(Case{"gpt2", kStandard, false}, Case{"gpt2", kFlash, true},
                                         Case{"llama", kStandard, true},
                                         Case{"llama", kFlash, false},
                                         Case{"qwen2", kStandard, false},
                                         Case{"qwen2", kFlash, true}, Case{"mistral", kFlash, true},
                                         Case{"bert", kStandard, true},
                                         Case{"bert", kFlash, false}),
                         [](const auto& p) {
                           return std::string(p.param.family) +
                                  (p.param.attention == kFlash ? "_flash" : "_standard") +
                                  (p.param.chunked_loss ? "_chunked" : "_whole");
                         });

}  // namespace
}  // namespace snug
