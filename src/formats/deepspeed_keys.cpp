// The table of DeepSpeed's keys. docs/deepspeed.md prints it, and a test holds the two to each other.
#include <algorithm>
#include <array>

#include "formats/deepspeed_config.h"

namespace snug {
namespace {

using enum DeepSpeedType;

constexpr std::string_view kZero = "zero_optimization";
constexpr std::string_view kParam = "zero_optimization.offload_param";
constexpr std::string_view kState = "zero_optimization.offload_optimizer";
constexpr std::string_view kSaved = "activation_checkpointing";
constexpr std::string_view kOptimizer = "optimizer.params";
constexpr std::string_view kScheduler = "scheduler.params";

// Reasons that several keys share.
constexpr std::string_view kNoBucket =
    "no buckets: a layer's small gradients are exchanged together, as the plan counts";
constexpr std::string_view kPlanned = "the plan gives every value its place before the run";
constexpr std::string_view kScaledOnce = "ranks' gradients are added in fp32 and scaled once";
constexpr std::string_view kPinned = "host memory of a run on a GPU is always pinned";
constexpr std::string_view kAhead = "a layer is prefetched --offload-ahead layers before use";
constexpr std::string_view kOverlaps = "copies always overlap compute, on lanes of their own";
constexpr std::string_view kLive = "a layer is whole from its gather to its last use, then freed";
constexpr std::string_view kDisk = "one file, read and written with direct I/O in large blocks";
constexpr std::string_view kSeen = "the plan and `train --explain` print work and times by op";
constexpr std::string_view kMonitor = "`train --json` prints a line a step for any monitor";
constexpr std::string_view kNotBuilt = "not built: exact numbers instead";
constexpr std::string_view kModelCalls =
    "nothing by itself, as in DeepSpeed unless the model calls its function";
constexpr std::string_view kOtherLearning = "changes what is learned, and is not built";
constexpr std::string_view kCycle = "of a schedule that is not built";

constexpr std::array kKeys = std::to_array<DeepSpeedKey>({
    {"", "train_batch_size", whole, "", "--accum", "sequences per step, over all ranks"},
    {"", "train_micro_batch_size_per_gpu", whole, "", "--batch", "sequences per micro-batch"},
    {"", "gradient_accumulation_steps", whole, "", "--accum", "micro-batches per step"},
    {"", "gradient_clipping", number, "1.0", "--clip", "largest global gradient norm"},
    {"", "communication_data_type", dtype, "", "", "ranks exchange gradients as --grad-dtype"},
    {"", "prescale_gradients", flag, "false", "", kScaledOnce},
    {"", "gradient_predivide_factor", number, "1.0", "", kScaledOnce},
    {"", "steps_per_print", whole, "", "", "every step prints a line"},
    {"", "wall_clock_breakdown", flag, "false", "", kSeen},
    {"", "memory_breakdown", flag, "false", "", "the plan prints every byte before the run"},
    {"", "zero_allow_untested_optimizer", flag, "false", "",
     "every optimizer works in every stage"},
    {"", "zero_force_ds_cpu_optimizer", flag, "true", "", "--host-update says where updates run"},
    {"", "dump_state", flag, "false", "", "`plan --json` and run.toml have all of it"},
    {"", "disable_allgather", flag, "false", "", "ranks always gather: the same bytes"},
    {"", "sparse_gradients", flag, "false", "", "gradients of embeddings are dense"},
    {"", "dataloader_drop_last", flag, "false", "", "every step has whole micro-batches"},
    {"", "seq_parallel_communication_data_type", dtype, "fp32", "", "no sequence parallel here"},
    {"", "tensorboard", any, "", "", kMonitor},
    {"", "wandb", any, "", "", kMonitor},
    {"", "comet", any, "", "", kMonitor},
    {"", "csv_monitor", any, "", "", kMonitor},
    {"", "comms_logger", any, "", "", "the plan prints the bytes and times of every lane"},
    {"", "autotuning", any, "", "", "the plan's search does that, without a run"},
    {"", "compile", any, "", "", "the whole step is compiled before the run"},
    {"", "timers", any, "", "", kSeen},
    {"", "nebula", any, "", "", "checkpoints are always written while steps run"},
    {"", "hybrid_engine", any, "", "", "for inference between steps; `snug sample` is"},
    {"", "eigenvalue", any, "", "", kOtherLearning},
    {"", "torch_autocast", any, "", "", "16-bit weights have fp32 masters instead: --precision"},
    {"", "amp", any, "", "", kOtherLearning},
    {"", "elasticity", any, "", "", "`--resume` works with any number of ranks"},
    {"", "sparse_attention", any, "", "", kOtherLearning},
    {"", "curriculum_learning", any, "", "", kOtherLearning},
    {"", "data_efficiency", any, "", "", kOtherLearning},
    {"", "compression_training", any, "", "", kOtherLearning},
    {"", "progressive_layer_drop", any, "", "", kOtherLearning},
    {"", "weight_quantization", any, "", "", kOtherLearning},
    {"data_types", "grad_accum_dtype", dtype, "", "--grad-dtype", "type in which gradients add up"},

    {"fp16", "enabled", flag, "false", "--precision", "fp16 weights and activations"},
    {"fp16", "auto_cast", flag, "false", "", "inputs are tokens: nothing to cast"},
    {"fp16", "loss_scale", number, "0", "--loss-scale", "0 is a dynamic scale"},
    {"fp16", "initial_scale_power", whole, "16", "--loss-scale", "where a dynamic scale starts"},
    {"fp16", "loss_scale_window", whole, "1000", "--loss-scale-interval",
     "clean steps after which the scale doubles"},
    {"fp16", "hysteresis", whole, "2", "", "the scale halves at the first overflow"},
    {"fp16", "consecutive_hysteresis", flag, "false", "", "the scale halves at the first overflow"},
    {"fp16", "min_loss_scale", number, "1", "", "the scale is never below 1"},
    {"fp16", "fp16_master_weights_and_grads", flag, "false", "--master --grad-dtype",
     "no fp32 masters: stochastic rounding"},

    {"bf16", "enabled", flag, "false", "--precision", "bf16 weights and activations"},
    {"bf16", "immediate_grad_update", flag, "false", "",
     "gradients are added where they are made, always"},
    {"bf16", "check_grad_overflow", flag, "true", "", "--on-nan says what a loss of nan does"},
    {"bf16", "bf16_master_weights_and_grads", flag, "false", "--master --grad-dtype",
     "no fp32 masters: stochastic rounding"},
    {"bf16", "bf16_optimizer_states", flag, "false", "--state-dtype", "moments in bf16"},

    {kZero, "stage", whole, "0", "--zero", "what ranks share instead of having all of it"},
    {kZero, "contiguous_gradients", flag, "true", "", kPlanned},
    {kZero, "reduce_scatter", flag, "true", "", "ranks always exchange blocks, each adds its own"},
    {kZero, "allgather_partitions", flag, "true", "", "parameters are always gathered"},
    {kZero, "reduce_bucket_size", whole, "5e8", "", kNoBucket},
    {kZero, "allgather_bucket_size", whole, "5e8", "", kNoBucket},
    {kZero, "overlap_comm", flag, "", "", "collectives always overlap compute"},
    {kZero, "sub_group_size", whole, "1e9", "", "updates run parameter by parameter"},
    {kZero, "stage3_prefetch_bucket_size", whole, "5e7", "", kAhead},
    {kZero, "stage3_param_persistence_threshold", whole, "1e5", "--zero-threshold",
     "smaller parameters stay whole on every rank"},
    {kZero, "stage3_model_persistence_threshold", whole, "9223372036854775807", "",
     "no bound on all that stays whole"},
    {kZero, "stage3_max_live_parameters", whole, "1e9", "", kLive},
    {kZero, "stage3_max_reuse_distance", whole, "1e9", "", kLive},
    {kZero, "stage3_gather_16bit_weights_on_model_save", flag, "false", "",
     "a saved model is always whole"},
    {kZero, "stage3_gather_fp16_weights_on_model_save", flag, "false", "",
     "deprecated; a saved model is always whole"},
    {kZero, "stage3_module_granularity_threshold", whole, "0", "", kLive},
    {kZero, "stage3_use_all_reduce_for_fetch_params", flag, "false", "",
     "parameters are always gathered"},
    {kZero, "stage3_allgather_sequential", flag, "false", "", kNoBucket},
    {kZero, "round_robin_gradients", flag, "false", "", kOverlaps},
    {kZero, "zero_hpz_partition_size", whole, "1", "", "not built: all ranks share parameters"},
    {kZero, "zero_quantized_weights", flag, "false", "", kNotBuilt},
    {kZero, "zero_quantized_nontrainable_weights", flag, "false", "", kNotBuilt},
    {kZero, "zero_quantized_gradients", flag, "false", "", kNotBuilt},
    {kZero, "zeropp_loco_param", any, "", "", kNotBuilt},
    {kZero, "mics_shard_size", whole, "-1", "--shard",
     "so many neighbours share a copy (hybrid:N)"},
    {kZero, "mics_hierarchical_params_gather", flag, "false", "", kNotBuilt},
    {kZero, "use_multi_rank_bucket_allreduce", flag, "true", "", kNoBucket},
    {kZero, "load_from_fp32_weights", flag, "true", "", "checkpoints hold the fp32 masters"},
    {kZero, "elastic_checkpoint", flag, "false", "", "`--resume` works with any number of ranks"},
    {kZero, "ignore_unused_parameters", flag, "true", "", "every parameter is used"},
    {kZero, "legacy_stage1", flag, "false", "", "there is one stage 1"},
    {kZero, "memory_efficient_linear", flag, "true", "", kPlanned},
    {kZero, "pipeline_loading_checkpoint", flag, "false", "", "each rank reads its own pieces"},
    {kZero, "override_module_apply", flag, "true", "", "a model here is a program"},
    {kZero, "log_trace_cache_warnings", flag, "false", "", "the order is known before the run"},
    {kZero, "enable_sanity_checks", flag, "false", "", "every plan is verified"},
    {kZero, "cpu_offload", flag, "false", "--offload",
     "deprecated: offload_optimizer with device cpu"},
    {kZero, "cpu_offload_param", flag, "false", "--offload",
     "deprecated: offload_param with device cpu"},
    {kZero, "cpu_offload_use_pin_memory", flag, "false", "", "deprecated; pinned always"},

    {kParam, "device", device, "none", "--offload", "where parameters live between uses (stage 3)"},
    {kParam, "nvme_path", text, "", "--offload-dir", "the directory for device nvme"},
    {kParam, "buffer_count", whole, "5", "", kAhead},
    {kParam, "buffer_size", whole, "1e8", "", "staging is as large as a layer"},
    {kParam, "max_in_cpu", whole, "1e9", "", "--offload params@LAYERS says which are where"},
    {kParam, "pin_memory", flag, "false", "", kPinned},

    {kState, "device", device, "none", "--offload", "where masters, moments and gradients live"},
    {kState, "nvme_path", text, "", "--offload-dir", "the directory for device nvme"},
    {kState, "buffer_count", whole, "4", "", kAhead},
    {kState, "pin_memory", flag, "false", "", kPinned},
    {kState, "pipeline_read", flag, "false", "", kOverlaps},
    {kState, "pipeline_write", flag, "false", "", kOverlaps},
    {kState, "fast_init", flag, "false", "", "initial values are written where they live"},
    {kState, "ratio", number, "1.0", "--offload", "part of the layers whose state is offloaded"},
    {kState, "super_offload", flag, "false", "", "--host-update auto finds who updates faster"},
    {kState, "cpuadam_cores_perc", number, "0.8", "", "--threads says how many cores"},

    {kSaved, "partition_activations", flag, "false", "", kModelCalls},
    {kSaved, "cpu_checkpointing", flag, "false", "", kModelCalls},
    {kSaved, "contiguous_memory_optimization", flag, "false", "", kPlanned},
    {kSaved, "number_checkpoints", whole, "", "", kModelCalls},
    {kSaved, "synchronize_checkpoint_boundary", flag, "false", "", "nothing waits at layers"},
    {kSaved, "profile", flag, "false", "", kSeen},

    {"aio", "block_size", whole, "1048576", "", kDisk},
    {"aio", "queue_depth", whole, "8", "", kDisk},
    {"aio", "thread_count", whole, "1", "", kDisk},
    {"aio", "intra_op_parallelism", whole, "1", "", kDisk},
    {"aio", "single_submit", flag, "false", "", kDisk},
    {"aio", "overlap_events", flag, "true", "", kDisk},
    {"aio", "use_gds", flag, "false", "", "disk is reached through host memory"},

    {"optimizer", "type", text, "", "--optimizer", "Adam (which is AdamW), AdamW, Lion, SGD"},
    {"optimizer", "legacy_fusion", flag, "false", "", "updates are one kernel each"},
    {kOptimizer, "lr", number, "1e-3", "--lr", "peak learning rate"},
    {kOptimizer, "betas", betas, "[0.9, 0.999]", "--beta1 --beta2", "decay of the moments"},
    {kOptimizer, "eps", number, "1e-8", "--eps", "epsilon"},
    {kOptimizer, "weight_decay", number, "0", "--weight-decay", "here not on norms and biases"},
    {kOptimizer, "adam_w_mode", flag, "true", "", "false: decay inside the gradient, not built"},
    {kOptimizer, "torch_adam", flag, "false", "", "the same numbers"},
    {kOptimizer, "fused", flag, "false", "", "updates are one kernel each"},
    {kOptimizer, "foreach", flag, "false", "", "updates are one kernel each"},
    {kOptimizer, "bias_correction", flag, "true", "", "always"},
    {kOptimizer, "amsgrad", flag, "false", "", kOtherLearning},
    {kOptimizer, "momentum", number, "0", "--momentum", "of SGD"},
    {kOptimizer, "dampening", number, "0", "", kOtherLearning},
    {kOptimizer, "nesterov", flag, "false", "", kOtherLearning},
    {kOptimizer, "max_grad_norm", number, "0", "", "DeepSpeed refuses it: gradient_clipping"},

    {"scheduler", "type", text, "", "--lr-schedule", "WarmupLR, WarmupDecayLR, WarmupCosineLR"},
    {kScheduler, "warmup_min_lr", number, "0", "", "warm-up starts at peak / steps"},
    {kScheduler, "warmup_max_lr", number, "1e-3", "--lr", "peak learning rate"},
    {kScheduler, "warmup_num_steps", whole, "1000", "--warmup", "steps of warm-up"},
    {kScheduler, "warmup_type", text, "log", "", "warm-up here is linear"},
    {kScheduler, "total_num_steps", whole, "", "--steps", "where the schedule and the run end"},
    {kScheduler, "warmup_min_ratio", number, "0", "", "warm-up starts at peak / steps"},
    {kScheduler, "cos_min_ratio", number, "1e-4", "--min-lr", "where it ends, as part of the peak"},
    {kScheduler, "last_batch_iteration", whole, "-1", "", "`--resume` knows its step"},
    {kScheduler, "cycle_min_lr", number, "", "", kCycle},
    {kScheduler, "cycle_max_lr", number, "", "", kCycle},
    {kScheduler, "decay_lr_rate", number, "0", "", kCycle},
    {kScheduler, "cycle_first_step_size", whole, "2000", "", kCycle},
    {kScheduler, "cycle_second_step_size", whole, "", "", kCycle},
    {kScheduler, "cycle_first_stair_count", whole, "0", "", kCycle},
    {kScheduler, "cycle_second_stair_count", whole, "", "", kCycle},
    {kScheduler, "decay_step_size", whole, "0", "", kCycle},
    {kScheduler, "cycle_momentum", flag, "true", "", kCycle},
    {kScheduler, "cycle_min_mom", number, "0.8", "", kCycle},
    {kScheduler, "cycle_max_mom", number, "0.9", "", kCycle},
    {kScheduler, "decay_mom_rate", number, "0", "", kCycle},
    {kScheduler, "lr_range_test_min_lr", number, "1e-3", "", kCycle},
    {kScheduler, "lr_range_test_step_size", whole, "2000", "", kCycle},
    {kScheduler, "lr_range_test_step_rate", number, "1.0", "", kCycle},
    {kScheduler, "lr_range_test_staircase", flag, "false", "", kCycle},

    {"flops_profiler", "enabled", flag, "false", "", kSeen},
    {"flops_profiler", "profile_step", whole, "1", "", kSeen},
    {"flops_profiler", "module_depth", whole, "-1", "", kSeen},
    {"flops_profiler", "top_modules", whole, "1", "", kSeen},
    {"flops_profiler", "detailed", flag, "true", "", kSeen},
    {"flops_profiler", "output_file", text, "", "", kSeen},
    {"pipeline", "stages", any, "auto", "--pp", "layers cut into so many stages"},
    {"pipeline", "partition", text, "best", "", "stages are always balanced by what they cost"},
    {"pipeline", "activation_checkpoint_interval", whole, "0", "--recompute",
     "so many layers are recomputed from one kept value"},
    {"tensor_parallel", "autotp_size", whole, "0", "--tp", "ranks that share each matrix"},
    {"checkpoint", "tag_validation", text, "WARN", "",
     "ranks always agree on a checkpoint, or fail"},
    {"checkpoint", "load_universal", flag, "false", "", "every checkpoint resumes on any ranks"},
    {"checkpoint", "use_node_local_storage", flag, "false", "", "all ranks write into --out"},
});

}  // namespace

std::string DeepSpeedKey::path() const {
  return block.empty() ? std::string(name) : std::string(block) + "." + std::string(name);
}

std::span<const DeepSpeedKey> deepspeed_keys() { return kKeys; }

const DeepSpeedKey* find_deepspeed_key(std::string_view path) {
  const auto found =
      std::ranges::find_if(kKeys, [&](const DeepSpeedKey& key) { return key.path() == path; });
  return found == kKeys.end() ? nullptr : &*found;
}

std::string_view name_of(DeepSpeedType type) {
  constexpr std::array<std::string_view, 8> kNames{
      "flag", "whole number", "number", "text", "dtype", "device", "two numbers", "anything"};
  return kNames[static_cast<size_t>(type)];
}

}  // namespace snug
