// Plan = run for the whole process: from the opened device to the saved model, loading included, the
// memory of a training grows by its arenas and by nothing that a tensor's size enters.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/sanitized.h"
#include "base/testing.h"
#include "base/units.h"
#include "formats/testing.h"
#include "snug/set_option.h"
#include "snug/snug.h"
#include "support/run_command.h"

namespace snug {
namespace {

constexpr int64_t kMargin = int64_t{24} << 20;

// From now on VmHWM is the most that was resident since now.
bool forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

struct Growth {
  int64_t planned = 0;  // in the arenas of device and host
  int64_t peak = 0;     // resident, beyond what was when the device was open
};

Growth train_and_measure(const Options& options) {
  Growth growth;
  int64_t before = 0;
  TrainObserver observer;
  observer.planned = [&](const PlanReport& report) {
    growth.planned =
        report.arena_bytes + nlohmann::json::parse(report.json).at("host_bytes").get<int64_t>();
    EXPECT_TRUE(forget_peak());
    before = testing::status_bytes("VmRSS:");
  };
  const TrainReport report = train(options, observer);
  EXPECT_GT(report.steps, 0);
  growth.peak = testing::status_bytes("VmHWM:") - before;
  return growth;
}

// Nearly all of it is one tensor of 48 MiB: holding that twice is beyond the margin.
nlohmann::json one_large_tensor() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 98304},
          {"max_position_embeddings", 64},
          {"hidden_size", 128},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", true}};
}

TEST(Memory, ProcessGrowsByArenasFromLoadToSave) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer keeps what was freed";
  if (!forget_peak()) GTEST_SKIP() << "needs /proc/self/clear_refs";
  testing::TempDir dir;
  testing::write_bytes(dir / "model/config.json", one_large_tensor().dump());
  Options o;
  o.model = (dir / "model").string();
  set_option(o, "device", "cpu");
  o.data = "synthetic";
  o.batch = 1;
  o.seq = 16;
  o.steps = 1;
  set_option(o, "init", "scratch");
  o.out = (dir / "saved").string();
  train(o, {});  // libraries are loaded, threads have their stacks

  o.model = o.out;
  set_option(o, "init", "load");
  o.out = (dir / "again").string();
  o.overwrite = true;
  const auto expect_as_planned = [&](const char* what) {
    const Growth growth = train_and_measure(o);
    ::testing::Test::RecordProperty(what, format_bytes(growth.peak - growth.planned));
    EXPECT_GT(growth.planned, 64 << 20) << what << ": too small to tell";
    EXPECT_NEAR(static_cast<double>(growth.peak), static_cast<double>(growth.planned), kMargin)
        << what << ": planned " << format_bytes(growth.planned) << ", grown by "
        << format_bytes(growth.peak);
  };
  expect_as_planned("in_memory");
  set_option(o, "precision", "bf16");
  set_option(o, "master", "none");
  expect_as_planned("converted_to_bf16");
  set_option(o, "master", "fp32");
  set_option(o, "offload", "all");
  expect_as_planned("offloaded");
  o.steps = 2;
  set_option(o, "save-every", "1");
  expect_as_planned("saved_on_the_way");
  const std::string checkpoint = (dir / "again/step-00000001").string();
  o = {};
  o.resume = checkpoint;
  o.out = (dir / "resumed").string();
  expect_as_planned("resumed");

  EXPECT_TRUE(forget_peak());
  const int64_t before = testing::status_bytes("VmRSS:");
  export_checkpoint(checkpoint, (dir / "exported").string());
  const int64_t grown = testing::status_bytes("VmHWM:") - before;
  ::testing::Test::RecordProperty("exported", format_bytes(grown));
  EXPECT_LT(grown, kMargin) << "exported: " << format_bytes(grown);
}

}  // namespace
}  // namespace snug
