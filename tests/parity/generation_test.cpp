// Generation with kept keys and values against the forward pass over the whole sequence, in fp32:
// the logits of every token, and the tokens that follow from them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "compile/compile.h"
#include "generate/generator.h"
#include "hal/cpu/cpu_device.h"
#include "models/model.h"
#include "passes/passes.h"
#include "placement/plan.h"
#include "runtime/initialise.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int64_t kTokens = 21;  // longer than the windows of the models here

// A module, placed and loaded with a model's weights.
class Loaded {
 public:
  Loaded(const Model& model, Module module, ExecutorOptions options = {})
      : plan_(make_plan(std::move(module), Backend::cpu)),
        device_(cpu_device()),
        executor_(plan_.module, *device_, std::move(options)) {
    initialise(executor_, /*seed=*/1);
    ValuePieces pieces(executor_);
    load_model(plan_.module, into(pieces), CheckpointReader(model.source_dir()),
               [&](std::string_view name) { return model.spellings(name); });
  }
  Executor& executor() { return executor_; }

 private:
  Plan plan_;
  std::unique_ptr<Device> device_;
  Executor executor_;
};

// The forward pass that training and evaluation have, with the logits of all tokens.
Module whole_sequence(const Model& model) {
  Module module{.name = "whole"};
  const BuildOptions build{.batch = 1, .seq = kTokens, .chunked_loss = false};
  const Forward forward = add_forward(module, model.forward(build), ProgramRole::evaluation);
  bind_loss(module, program_name(ProgramRole::evaluation), forward.loss);
  const ValueId all =
      add_shared(module, "all_logits", module[forward.logits].type, Category::buffers, Scope::step);
  module[forward.logits].base = all;
  continue_compile(module, {}, CompilePhase::offload);
  return module;
}

class Generation : public ::testing::TestWithParam<const char*> {
 protected:
  // [kTokens, V]
  std::vector<float> whole_logits(std::span<const int32_t> tokens) {
    Executor& executor = whole_.executor();
    executor.write(executor.shared("tokens"), std::as_bytes(tokens));
    executor.write(executor.shared("targets"), std::as_bytes(tokens));
    executor.run(ProgramRole::evaluation);
    std::vector<float> logits(static_cast<size_t>(kTokens * V()));
    executor.read(executor.shared("all_logits"), std::as_writable_bytes(std::span(logits)));
    return logits;
  }
  Module cached(int64_t prefill) const {
    return compile_generation("cached", model_.cached_forward(kTokens), prefill, {});
  }
  std::vector<int32_t> some_tokens() const {
    std::vector<int32_t> tokens(kTokens);
    const Key key = random_key(7, 0, hash_name("tokens"));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>(philox(key, i)[0] % static_cast<uint64_t>(V()));
    return tokens;
  }
  int64_t V() const { return model_.config().V; }

  Model model_ = Model::load(tests_dir() + "/parity/" + GetParam());
  Loaded whole_{model_, whole_sequence(model_)};
};

int32_t most_probable(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Of the largest logit.
constexpr double kTolerance = 1e-5;

// A prompt of 13 in chunks of 5: two of them, one that overlaps the second, and the last token.
TEST_P(Generation, TokensHaveLogitsOfWholeSequence) {
  const std::vector<int32_t> tokens = some_tokens();
  const std::vector<float> want = whole_logits(tokens);
  const double scale =
      std::abs(*std::ranges::max_element(want, {}, [](float x) { return std::abs(x); }));
  Loaded loaded(model_, cached(5), {.test = {.poison_dead = true}});
  Generator generator(loaded.executor());
  ASSERT_EQ(generator.positions(), kTokens);
  for (const size_t prompt : {13, 1, 3}) {
    generator.restart();
    for (size_t at = 0; at < tokens.size();) {
      const size_t count = at == 0 ? prompt : 1;
      const auto got = generator.take(std::span(tokens).subspan(at, count));
      at += count;
      ASSERT_EQ(generator.position(), static_cast<int64_t>(at));
      for (int64_t v = 0; v < V(); ++v) {
        const double whole = want[(at - 1) * static_cast<size_t>(V()) + static_cast<size_t>(v)];
        ASSERT_NEAR(got[static_cast<size_t>(v)], whole, kTolerance * scale)
            << "token " << v << " after " << at << ", prompt of " << prompt;
      }
    }
  }
}

TEST_P(Generation, GreedyTokensMatchWholeSequence) {
  constexpr size_t kPrompt = 4;
  std::vector<int32_t> tokens = some_tokens();
  Loaded loaded(model_, cached(kPrompt - 1));
  Generator generator(loaded.executor());
  auto logits = generator.take(std::span(tokens).first(kPrompt));
  for (size_t i = kPrompt; i < tokens.size(); ++i) {
    tokens[i] = most_probable(logits);
    logits = generator.take(std::span(tokens).subspan(i, 1));
  }
  // Attention is causal: one run over all of them says what each step would have chosen.
  const std::vector<float> want = whole_logits(tokens);
  for (size_t i = kPrompt; i < tokens.size(); ++i) {
    const auto width = static_cast<size_t>(V());
    EXPECT_EQ(tokens[i], most_probable(std::span(want).subspan((i - 1) * width, width))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Generation,
                         ::testing::Values("gpt2", "llama", "qwen2", "mistral", "mistral_window",
                                           "llama3", "qwen3", "olmo2", "phi3", "gemma3", "stablelm",
                                           "stablelm_parallel", "gpt_neox", "opt"),
                         [](const auto& p) { return std::string(p.param); });

TEST(GenerationModels, BertWritesNoText) {
  const Model bert = Model::load(tests_dir() + "/parity/bert");
  EXPECT_THROW(bert.cached_forward(8), Error);
}

}  // namespace
}  // namespace snug
