// DeepSpeed's files become the options that they mean: whole files in the shape of well-known ones, and
// every key of its reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "formats/testing.h"
#include "recipe/deepspeed.h"
#include "support/run_command.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

const fs::path kFiles = fs::path(SNUG_TEST_DIR) / "files";

// gpt2's width and layers.
DeepSpeedPlace on(int64_t ranks) { return {.ranks = ranks, .width = 768, .layers = 12}; }

DeepSpeedMapped mapped(std::string_view text, int64_t ranks = 1) {
  return map_deepspeed(DeepSpeedConfig::parse(text, "ds.json"), on(ranks));
}

struct File {
  const char* name;
  int64_t ranks;
  const char* flags;
};

constexpr File kTable[] = {
    {"stage0", 1,
     "--batch 16 --accum 2 --precision fp16 --optimizer adamw --lr 0.00015 --weight-decay 0 "
     "--beta1 0.9 --beta2 0.999 --eps 1e-08"},
    {"stage0", 8,
     "--tp 1 --batch 2 --accum 2 --precision fp16 --zero 0 --optimizer adamw --lr 0.00015 "
     "--weight-decay 0 --beta1 0.9 --beta2 0.999 --eps 1e-08"},
    {"stage1", 4, "--tp 1 --batch 4 --accum 4 --precision bf16 --clip 0.5 --zero 1"},
    {"stage2", 2,
     "--tp 1 --batch 8 --accum 1 --precision fp16 --loss-scale dynamic:4096 --loss-scale-interval "
     "500 "
     "--zero 2"},
    {"stage3", 8, "--tp 1 --batch 1 --accum 1 --precision bf16 --zero 3 --zero-threshold 1000000"},
    {"stage3", 1, "--batch 1 --accum 1 --precision bf16"},
    {"hf_zero2_auto", 4, "--tp 1 --zero 2 --offload none --optimizer adamw --lr-schedule constant"},
    {"hf_zero3_auto", 8,
     "--tp 1 --zero 3 --zero-threshold 7680 --offload optimizer,master,grads,params"},
    {"offload_optimizer", 2,
     "--tp 1 --batch 2 --accum 4 --precision bf16 --zero 2 --offload optimizer,master,grads"},
    {"offload_optimizer", 1,
     "--batch 2 --accum 4 --precision bf16 --offload optimizer,master,grads"},
    {"offload_both", 1,
     "--batch 1 --accum 1 --precision bf16 --offload optimizer,master,grads,params"},
    {"infinity_nvme", 8,
     "--tp 1 --batch 1 --accum 1 --precision fp16 --zero 3 --offload "
     "optimizer=disk,master=disk,grads=disk,params=disk --offload-dir "
     "/local_nvme"},
    {"nvme_stage2", 2,
     "--tp 1 --batch 1 --accum 1 --precision bf16 --zero 2 --offload optimizer,master,grads"},
    {"partial_offload", 2,
     "--tp 1 --batch 1 --accum 1 --precision bf16 --zero 3 --offload "
     "optimizer@0-5,master@0-5,grads@0-5"},
    {"deprecated_offload", 1,
     "--batch 4 --accum 1 --precision fp16 --offload optimizer,master,grads,params"},
    {"deprecated_zero_true", 2,
     "--tp 1 --batch 8 --accum 1 --precision fp16 --loss-scale 128 --zero 1"},
    {"bfloat16", 2, "--tp 1 --batch 2 --accum 1 --precision bf16 --zero 1"},
    {"fp32", 1,
     "--batch 8 --accum 1 --precision fp32 --clip 0 --optimizer sgd --lr 0.1 --weight-decay 0 "
     "--momentum 0.9"},
    {"static_scale", 4, "--tp 1 --batch 2 --accum 2 --precision fp16 --loss-scale 1024 --zero 0"},
    {"no_masters", 2,
     "--tp 1 --batch 2 --accum 1 --precision bf16 --master none --grad-dtype bf16 --state-dtype "
     "bf16 "
     "--zero 2"},
    {"fp16_masters", 1,
     "--batch 2 --accum 1 --precision fp16 --master none --grad-dtype fp16 --offload "
     "optimizer,master,grads"},
    {"warmup_decay", 1,
     "--batch 4 --accum 1 --precision bf16 --optimizer adamw --lr 3e-05 --weight-decay 3e-07 "
     "--beta1 0.8 --beta2 0.999 --eps 1e-08 --lr-schedule linear --warmup 500 --steps 5000 "
     "--min-lr 0"},
    {"warmup_cosine", 1,
     "--batch 4 --accum 1 --precision bf16 --optimizer lion --lr 0.0001 --weight-decay 0.1 "
     "--beta1 0.9 --beta2 0.99 --lr-schedule cosine --warmup 200 --steps 10000 --min-lr 0.1"},
    {"commented", 2, "--tp 1 --batch 4 --accum 2 --precision bf16 --zero 2"},
    {"grad_accum_fp32", 1, "--batch 1 --accum 16 --precision bf16 --grad-dtype fp32"},
    {"checkpointing", 1, "--batch 2 --accum 1 --precision bf16"},
    {"mesh", 8, "--tp 2 --pp 2 --recompute every:1 --batch 2 --accum 8 --precision bf16 --zero 1"},
    {"bare_names", 4, "--tp 1 --batch 1 --accum 1 --precision bf16 --zero 3 --zero-threshold 0"},
};

TEST(DeepSpeed, FilesMapToOptions) {
  for (const File& file : kTable) {
    SCOPED_TRACE(fmt::format("{} on {} ranks", file.name, file.ranks));
    const DeepSpeedConfig config =
        DeepSpeedConfig::read(kFiles / fmt::format("{}.json", file.name));
    const DeepSpeedMapped mapped = map_deepspeed(config, on(file.ranks));
    EXPECT_EQ(flags_of(mapped.change), file.flags);
    EXPECT_TRUE(std::ranges::none_of(mapped.lines, &DeepSpeedLine::refused));
    changed(Options{}, mapped.change);  // every setting is an option, of its type
  }
}

// DeepSpeed divides no matrix and makes no stages unless it is told to, so the file leaves no mesh
// open; a mesh on the command line wins.
TEST(DeepSpeed, FileWithoutMeshPinsDataParallelRanks) {
  constexpr std::string_view kFile = R"({"train_micro_batch_size_per_gpu": 1})";
  const auto flags = [&](DeepSpeedPlace place) {
    return flags_of(map_deepspeed(DeepSpeedConfig::parse(kFile, "ds.json"), place).change);
  };
  EXPECT_THAT(flags(on(4)), ::testing::HasSubstr("--tp 1 "));
  EXPECT_THAT(flags(on(1)), ::testing::Not(::testing::HasSubstr("--tp")));
  DeepSpeedPlace in_stages = on(4);
  in_stages.pp = 2;
  EXPECT_THAT(flags(in_stages), ::testing::Not(::testing::HasSubstr("--tp")));
}

TEST(DeepSpeed, EveryFileIsInTheTableOrRefused) {
  for (const auto& entry : fs::directory_iterator(kFiles)) {
    const std::string name = entry.path().stem();
    const bool listed = std::ranges::any_of(kTable, [&](const File& f) { return name == f.name; });
    EXPECT_TRUE(listed || name == "one_bit" || name == "one_cycle") << name;
  }
}

const DeepSpeedLine& line_of(const DeepSpeedMapped& mapped, std::string_view path) {
  const auto found = std::ranges::find(mapped.lines, path, &DeepSpeedLine::path);
  if (found == mapped.lines.end()) throw internal_error("no line {}", path);
  return *found;
}

// A block of shared/reference/deepspeed-config.md, and its keys.
struct Reference {
  const char* block;
  const char* keys;
};
constexpr Reference kReference[] = {
    {"",
     "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps "
     "gradient_clipping communication_data_type prescale_gradients gradient_predivide_factor "
     "steps_per_print wall_clock_breakdown memory_breakdown zero_allow_untested_optimizer"},
    {"data_types", "grad_accum_dtype"},
    {"fp16",
     "enabled auto_cast loss_scale initial_scale_power loss_scale_window hysteresis "
     "consecutive_hysteresis min_loss_scale fp16_master_weights_and_grads"},
    {"bf16",
     "enabled immediate_grad_update check_grad_overflow bf16_master_weights_and_grads "
     "bf16_optimizer_states"},
    {"zero_optimization",
     "stage contiguous_gradients reduce_scatter allgather_partitions reduce_bucket_size "
     "allgather_bucket_size overlap_comm sub_group_size stage3_prefetch_bucket_size "
     "stage3_param_persistence_threshold stage3_model_persistence_threshold "
     "stage3_max_live_parameters stage3_max_reuse_distance "
     "stage3_gather_16bit_weights_on_model_save round_robin_gradients zero_hpz_partition_size "
     "zero_quantized_weights zero_quantized_gradients cpu_offload cpu_offload_param "
     "cpu_offload_use_pin_memory stage3_gather_fp16_weights_on_model_save"},
    {"zero_optimization.offload_param",
     "device nvme_path buffer_count buffer_size max_in_cpu pin_memory"},
    {"zero_optimization.offload_optimizer",
     "device nvme_path buffer_count pin_memory pipeline_read pipeline_write fast_init ratio"},
    {"activation_checkpointing",
     "partition_activations cpu_checkpointing contiguous_memory_optimization number_checkpoints "
     "synchronize_checkpoint_boundary profile"},
    {"aio", "block_size queue_depth intra_op_parallelism single_submit overlap_events use_gds"},
    {"optimizer", "type"},
    {"optimizer.params", "lr betas eps weight_decay adam_w_mode torch_adam"},
    {"scheduler", "type"},
    {"scheduler.params",
     "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type total_num_steps warmup_min_ratio "
     "cos_min_ratio"},
    {"flops_profiler", "enabled profile_step module_depth top_modules detailed output_file"},
    {"pipeline", "stages partition activation_checkpoint_interval"},
    {"tensor_parallel", "autotp_size"},
    {"checkpoint", "tag_validation load_universal use_node_local_storage"},
};

// A value of the type: its default, or something of its kind.
std::string sample_of(const DeepSpeedKey& key) {
  using enum DeepSpeedType;
  switch (key.type) {
    case flag:
      return "true";
    case whole:
      return "2";
    case number:
      return "0.5";
    case text:
      return "\"x\"";
    case dtype:
      return "\"fp32\"";
    case device:
      return "\"cpu\"";
    case betas:
      return "[0.9, 0.99]";
    case any:
      return "{}";
  }
  throw internal_error("no such type");
}

// {"zero_optimization": {"offload_param": {"device": "cpu"}}}
std::string file_with(const DeepSpeedKey& key, const std::string& value) {
  std::string text = fmt::format("\"{}\": {}", key.name, value);
  if (key.block.empty()) return text;
  std::vector<std::string> blocks = split(key.block, '.');
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
    text = fmt::format("\"{}\": {{{}}}", *block, text);
  return text;
}

TEST(DeepSpeed, EveryKeyOfTheReferenceIsInTheTable) {
  for (const Reference& block : kReference) {
    for (const std::string& name : split(block.keys, ' ')) {
      const std::string path =
          *block.block == '\0' ? name : fmt::format("{}.{}", block.block, name);
      EXPECT_NE(find_deepspeed_key(path), nullptr) << path;
    }
  }
}

TEST(DeepSpeed, KeysOfTableAreReadAndTyped) {
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    SCOPED_TRACE(key.path());
    const DeepSpeedConfig file =
        DeepSpeedConfig::parse("{" + file_with(key, sample_of(key)) + "}", "ds.json");
    ASSERT_EQ(file.entries().size(), 1U);
    EXPECT_EQ(file.entries()[0].key, &key);
    EXPECT_TRUE(file.has(key.path()));
    if (key.type == DeepSpeedType::any) continue;
    EXPECT_TRUE(DeepSpeedConfig::parse("{" + file_with(key, "\"auto\"") + "}", "ds.json")
                    .is_automatic(key.path()));
    testing::expect_error(ExitCode::bad_input, "must be", [&] {
      DeepSpeedConfig::parse("{" + file_with(key, "{\"a\": 1}") + "}", "ds.json");
    });
  }
}

// Keys that map to an option set it where they apply, and no other.
TEST(DeepSpeed, KeysSetTheirOptions) {
  const std::string_view around =
      R"("train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW"})";
  EXPECT_EQ(flags_of(line_of(mapped(R"({"train_batch_size": 4})"), "train_batch_size").change),
            "--batch 4 --accum 1");
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    if (!key.option.empty() || key.path() == "train_micro_batch_size_per_gpu") continue;
    if (key.block.starts_with("optimizer") || key.block.starts_with("scheduler")) continue;
    SCOPED_TRACE(key.path());
    const DeepSpeedMapped m =
        mapped(fmt::format("{{{}, {}}}", around, file_with(key, sample_of(key))));
    EXPECT_TRUE(line_of(m, key.path()).change.empty());
  }
}

TEST(DeepSpeed, NeighboursShareACopyAsInMics) {
  const char* file = R"({"train_micro_batch_size_per_gpu": 1,
                         "zero_optimization": {"stage": 3, "mics_shard_size": 2}})";
  EXPECT_EQ(flags_of(line_of(mapped(file, 4), "zero_optimization.mics_shard_size").change),
            "--shard hybrid:2");
  EXPECT_EQ(flags_of(line_of(mapped(file, 1), "zero_optimization.mics_shard_size").change), "");
}

TEST(DeepSpeed, ReplicasAreRanksOverMesh) {
  const auto place = [](int64_t ranks, int64_t tp) {
    return DeepSpeedPlace{.ranks = ranks, .tp = tp, .width = 64, .layers = 4};
  };
  const DeepSpeedConfig file = DeepSpeedConfig::parse(
      R"({"train_batch_size": 8, "tensor_parallel": {"autotp_size": 4}})", "ds.json");
  const auto flags = [&](const DeepSpeedPlace& at) {
    return flags_of(map_deepspeed(file, at).change).substr(0, 26);
  };
  EXPECT_EQ(flags(place(8, 1)), "--tp 4 --batch 4 --accum 1");
  EXPECT_EQ(flags(place(1, 1)), "--tp 4 --batch 8 --accum 1") << "--tp says how many ranks";
  EXPECT_EQ(flags(place(8, 2)), "--tp 4 --batch 2 --accum 1") << "--tp 2 on the command line wins";
  testing::expect_error(ExitCode::bad_input, "makes groups of 4 ranks, and there are 6",
                        [&] { map_deepspeed(file, place(6, 1)); });
  testing::expect_error(ExitCode::bad_input, "pipeline.stages is 0",
                        [] { mapped(R"({"train_batch_size": 8, "pipeline": {"stages": 0}})", 1); });
  const DeepSpeedMapped open =
      mapped(R"({"train_batch_size": 8, "pipeline": {"stages": "auto", "partition": "best"}})", 1);
  EXPECT_EQ(line_of(open, "pipeline.stages").here, "left to --pp");
  EXPECT_EQ(line_of(open, "pipeline.partition").here, "only with stages");
}

// --- batches -------------------------------------------------------------------------------------

void expect_bad_file(std::string_view text, int64_t ranks, std::string_view why) {
  SCOPED_TRACE(text);
  testing::expect_error(ExitCode::bad_input, why, [&] { mapped(text, ranks); });
}

TEST(DeepSpeed, TwoOfThreeBatchesGiveTheThird) {
  const auto batches = [](std::string_view text) {
    constexpr std::string_view kBefore = "--tp 1 ";
    return flags_of(mapped(text, 4).change).substr(kBefore.size(), 20);
  };
  EXPECT_EQ(batches(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4})"),
            "--batch 4 --accum 4 ");
  EXPECT_EQ(batches(R"({"train_batch_size": 64, "gradient_accumulation_steps": 2})"),
            "--batch 8 --accum 2 ");
  EXPECT_EQ(batches(R"({"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2})"),
            "--batch 3 --accum 2 ");
  EXPECT_EQ(batches(R"({"train_batch_size": 16})"), "--batch 4 --accum 1 ");
  EXPECT_EQ(batches(R"({"train_micro_batch_size_per_gpu": 7})"), "--batch 7 --accum 1 ");
}

TEST(DeepSpeed, ContradictoryBatchesAreRefused) {
  expect_bad_file(R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4,
                      "gradient_accumulation_steps": 2})",
                  1,
                  "train_batch_size is 32, but train_micro_batch_size_per_gpu 4 x "
                  "gradient_accumulation_steps 2 x 1 rank is 8");
  expect_bad_file(R"({"train_batch_size": 10, "train_micro_batch_size_per_gpu": 4})", 1,
                  "is no multiple of 4 sequences on 1 rank");
  expect_bad_file(R"({"train_batch_size": 10, "gradient_accumulation_steps": 3})", 2,
                  "is no multiple of 3 micro-batches on 2 ranks");
  expect_bad_file(R"({"gradient_accumulation_steps": 3})", 1, "DeepSpeed needs one of them");
  expect_bad_file(R"({"train_batch_size": 0})", 1, "must be at least 1");
}

// --- what DeepSpeed refuses, and what is not built ---------------------------------------------

TEST(DeepSpeed, RefusesAsDeepSpeed) {
  const auto with = [](std::string_view text) {
    return fmt::format(R"({{"train_batch_size": 1, {}}})", text);
  };
  expect_bad_file(with(R"("fp16": {"enabled": true}, "bf16": {"enabled": true})"), 1,
                  "both true; DeepSpeed allows one");
  expect_bad_file(with(R"("fp16": {"enabled": true, "fp16_master_weights_and_grads": true})"), 1,
                  "needs ZeRO stage 2, and the stage is 0");
  expect_bad_file(with(R"("zero_optimization": {"stage": 2, "offload_optimizer":
                          {"device": "cpu", "ratio": 0.5}})"),
                  1, "DeepSpeed offloads a part in stage 3 only");
  expect_bad_file(with(R"("optimizer": {"type": "Adam", "params": {"max_grad_norm": 1}})"), 1,
                  "DeepSpeed asks for gradient_clipping");
  expect_bad_file(with(R"("scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 9}})"), 1,
                  "scheduler.params.total_num_steps is no parameter of WarmupLR");
  expect_bad_file(with(R"("scheduler": {"type": "WarmupDecayLR", "params": {}})"), 1,
                  "WarmupDecayLR needs scheduler.params.total_num_steps");
}

TEST(DeepSpeed, RefusesKeysThatChangeTraining) {
  const auto refused = [](std::string_view text, std::string_view path) {
    const DeepSpeedMapped m = mapped(fmt::format(R"({{"train_batch_size": 1, {}}})", text));
    return line_of(m, path).refused;
  };
  for (const char* type : {"OneBitAdam", "Lamb", "Adagrad", "Muon", "ZeroOneAdam", "RMSprop"})
    EXPECT_TRUE(refused(fmt::format(R"("optimizer": {{"type": "{}"}})", type), "optimizer.type"));
  for (const char* type : {"OneCycle", "LRRangeTest", "ExponentialLR"})
    EXPECT_TRUE(refused(fmt::format(R"("scheduler": {{"type": "{}"}})", type), "scheduler.type"));
  EXPECT_FALSE(refused(R"("optimizer": {"type": "Adam", "params": {"adam_w_mode": false}})",
                       "optimizer.params.adam_w_mode"))
      << "no decay: the same numbers";
  EXPECT_TRUE(refused(
      R"("optimizer": {"type": "Adam", "params": {"adam_w_mode": false, "weight_decay": 0.1}})",
      "optimizer.params.adam_w_mode"));
  EXPECT_TRUE(refused(R"("amp": {"enabled": true})", "amp"));
  EXPECT_TRUE(refused(R"("amp": {"enabled": 1})", "amp"));
  EXPECT_FALSE(refused(R"("amp": {"enabled": false})", "amp"));
  EXPECT_TRUE(refused(R"("elasticity": {"enabled": true})", "elasticity"));
}

// --- as it is typed ------------------------------------------------------------------------------

Ended snug_here(std::vector<std::string> words) {
  return run_snug(std::move(words), {.directory = kFiles});
}

TEST(DeepSpeedCli, PlanOfFileEqualsPlanOfItsOptions) {
  const Ended file =
      snug_here({"plan", "snug-tiny", "--gpu", "h100x8", "--deepspeed", "stage3.json"});
  const Ended typed =
      snug_here({"plan", "snug-tiny", "--gpu", "h100x8", "--tp", "1", "--batch", "1", "--accum",
                 "1", "--precision", "bf16", "--zero", "3", "--zero-threshold", "1000000"});
  EXPECT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(file.out, typed.out);
}

TEST(DeepSpeedCli, CommandLineOverridesWithNotice) {
  const Ended run =
      snug_here({"plan", "snug-tiny", "--batch", "2", "--deepspeed", "stage2.json", "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["recipe"]["batch"], 2);
  EXPECT_NE(
      run.err.find("--batch 2 in place of train_micro_batch_size_per_gpu 8, which stage2.json"),
      std::string::npos)
      << run.err;
  EXPECT_EQ(snug_here({"plan", "snug-tiny", "--batch", "8", "--deepspeed", "stage2.json"}).err, "");
}

TEST(DeepSpeedCli, ReportsKeysIgnoredByDeepSpeed) {
  const Ended run = snug_here({"plan", "snug-tiny", "--deepspeed", "bare_names.json"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("zero_optimisation is no key of DeepSpeed, which passes over it"),
            std::string::npos)
      << run.err;
}

TEST(DeepSpeedCli, RefusesWithAnExitCode) {
  const auto expect = [](std::vector<std::string> words, ExitCode code, std::string_view why) {
    const Ended run = snug_here(std::move(words));
    EXPECT_EQ(run.code, static_cast<int>(code)) << run.err;
    EXPECT_NE(run.err.find(why), std::string::npos) << run.err;
  };
  expect({"plan", "snug-tiny", "--gpu", "h100x256", "--deepspeed", "one_bit.json"}, ExitCode::usage,
         "optimizer.type OneBitAdam: not built");
  expect({"plan", "snug-tiny", "--deepspeed", "one_cycle.json"}, ExitCode::usage,
         "scheduler.type OneCycle: not built");
  expect({"plan", "snug-tiny", "--deepspeed", "static_scale.json"}, ExitCode::bad_input,
         "it is for 4 ranks: --ranks 4");
  expect({"plan", "snug-tiny", "--deepspeed", "none.json"}, ExitCode::bad_input, "none.json");
  expect({"plan", "snug-tiny", "--deepspeed", "."}, ExitCode::bad_input, ".");
  expect({"deepspeed", "/dev/zero", "snug-tiny"}, ExitCode::bad_input, "/dev/zero");
  expect({"train", "--resume", "runs", "--deepspeed", "fp32.json"}, ExitCode::usage,
         "--deepspeed and --resume");
  expect({"deepspeed", "fp32.json"}, ExitCode::usage, "needs a MODEL");
}

TEST(DeepSpeedCli, TrainsWithAFile) {
  const Ended run = snug_here({"train", "snug-tiny", "--data", "synthetic", "--seq", "16",
                               "--steps", "2", "--deepspeed", "fp32.json", "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(std::ranges::count(run.out, '\n'), 2) << run.out;
}

TEST(DeepSpeedCli, VerbReportsEveryKey) {
  const Ended run =
      snug_here({"deepspeed", "offload_optimizer.json", "snug-tiny", "--gpu", "h100x2", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json report = nlohmann::json::parse(run.out);
  EXPECT_EQ(report["keys"].size(), 8U);
  EXPECT_EQ(
      report["flags"],
      "--tp 1 --batch 2 --accum 4 --precision bf16 --zero 2 --offload optimizer,master,grads");
  for (const nlohmann::json& key : report["keys"]) {
    EXPECT_FALSE(key["here"].get<std::string>().empty()) << key;
    if (key["key"] == "zero_optimization.offload_optimizer.device") {
      EXPECT_LT(key["effect"]["device_bytes"], 0);
      EXPECT_GT(key["effect"]["host_bytes"], 0);
    }
    if (key["key"] == "zero_optimization.offload_optimizer.pin_memory") {
      EXPECT_TRUE(key["effect"].is_null());
    }
  }
  EXPECT_EQ(report["plan"]["recipe"]["zero"], "2");
}

TEST(DeepSpeedCli, TableFits100Columns) {
  for (const char* file : {"infinity_nvme.json", "hf_zero3_auto.json", "one_bit.json"}) {
    const Ended run = snug_here({"deepspeed", file, "snug-tiny", "--gpu", "h100x256"});
    EXPECT_EQ(run.code, 0) << run.err;
    for (const std::string& line : split(run.out, '\n')) {
      const auto columns = std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
      EXPECT_LE(columns, 100) << line;
    }
  }
}

}  // namespace
}  // namespace snug
