// Logits of a model with its adapter, and of the two merged into one model, in fp32: both are what
// PEFT computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/checkpoint.h"
#include "compile/compile.h"
#include "formats/peft_config.h"
#include "formats/testing.h"
#include "hal/cpu/cpu_device.h"
#include "models/model.h"
#include "passes/passes.h"
#include "placement/plan.h"
#include "recipe/resolve.h"
#include "runtime/initialise.h"
#include "runtime/testing/host_values.h"
#include "snug/snug.h"
#include "support/small_run.h"
#include "techniques/adapters/adapters.h"

namespace snug {
namespace {

class AdapterLogits : public ::testing::TestWithParam<const char*> {
 protected:
  std::string base() const { return tests_dir() + "/parity/" + GetParam(); }
  std::string adapter() const { return tests_dir() + "/parity/lora_" + GetParam(); }

  // Of the stored batch, by the forward pass of evaluation.
  std::vector<float> logits(const std::string& directory, const Adapters& adapters) {
    const Model model = Model::load(directory);
    const TensorEntry& tokens = *reference_.find("tokens");
    const BuildOptions build{
        .batch = tokens.shape[0], .seq = tokens.shape[1], .chunked_loss = false};
    Module module{.name = "logits"};
    const Forward forward = add_forward(module, model.forward(build), ProgramRole::evaluation);
    snug::adapters(module, adapters);
    bind_loss(module, program_name(ProgramRole::evaluation), forward.loss);
    const ValueId all = add_shared(module, "all_logits", module[forward.logits].type,
                                   Category::buffers, Scope::step);
    module[forward.logits].base = all;
    continue_compile(module, {}, CompilePhase::offload);

    const Plan plan = make_plan(std::move(module), Backend::cpu);
    const std::unique_ptr<Device> device = cpu_device();
    Executor executor(plan.module, *device, {});
    initialise(executor, /*seed=*/1);
    ValuePieces pieces(executor);
    load_model(plan.module, into(pieces), CheckpointReader(directory),
               [&](std::string_view name) { return model.spellings(name); });
    if (adapters.on()) {
      load_model(plan.module, into(pieces), CheckpointReader(adapter() + "/" + kAdapterWeightsFile),
                 {}, Part::adapter);
    }
    std::vector<std::byte> bytes(static_cast<size_t>(tokens.bytes));
    tokens.read(0, bytes);
    executor.write(executor.shared("tokens"), bytes);
    executor.write(executor.shared("targets"), bytes);
    executor.run(ProgramRole::evaluation);
    const auto found = HostValues(executor).look<float>(executor.shared("all_logits"));
    return {found.begin(), found.end()};
  }

  std::vector<float> stored(const char* tensor) const {
    const TensorEntry& entry = *reference_.find(tensor);
    std::vector<float> out(static_cast<size_t>(entry.bytes) / sizeof(float));
    entry.read(0, std::as_writable_bytes(std::span(out)));
    return out;
  }

  // Relative to the largest.
  static double difference(const std::vector<float>& got, const std::vector<float>& want) {
    EXPECT_EQ(got.size(), want.size());
    double most = 0, largest = 0;
    for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
      most = std::max(most, std::abs(double{got[i]} - double{want[i]}));
      largest = std::max(largest, std::abs(double{want[i]}));
    }
    return most / largest;
  }

  testing::TempDir dir_;
  SafetensorsFile reference_{adapter() + "/reference.safetensors"};
};

TEST_P(AdapterLogits, MatchPeftMergedAndUnmerged) {
  const std::string merged = (dir_ / "merged").string();
  merge_adapter(base(), adapter(), merged, {});
  const std::vector<float> unmerged = logits(base(), adapters_in(adapter()));
  const std::vector<float> merged_logits = logits(merged, {});
  EXPECT_LE(difference(unmerged, stored("logits")), 1e-5);
  EXPECT_LE(difference(merged_logits, stored("merged.logits")), 1e-5);
  EXPECT_LE(difference(merged_logits, unmerged), 1e-5);
  EXPECT_GT(difference(logits(base(), {}), unmerged), 1e-2) << "the adapter does something";
}

INSTANTIATE_TEST_SUITE_P(, AdapterLogits, ::testing::Values("llama", "gpt2", "phi3", "gpt_neox"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace snug
