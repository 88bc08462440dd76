// DeepSpeed's keys of bytes and time: the mesh, batches, precision, ZeRO, offload, checkpointing.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "base/units.h"
#include "recipe/deepspeed_mapper.h"
#include "settings/parse.h"

namespace snug {
namespace {

constexpr std::string_view kTrain = "train_batch_size";
constexpr std::string_view kMicro = "train_micro_batch_size_per_gpu";
constexpr std::string_view kSteps = "gradient_accumulation_steps";
constexpr std::string_view kTensorRanks = "tensor_parallel.autotp_size";
constexpr std::string_view kStages = "pipeline.stages";
constexpr std::string_view kInterval = "pipeline.activation_checkpoint_interval";
constexpr std::string_view kStage = "zero_optimization.stage";
constexpr std::string_view kSharers = "zero_optimization.mics_shard_size";
constexpr std::string_view kThreshold = "zero_optimization.stage3_param_persistence_threshold";
constexpr std::string_view kParamDevice = "zero_optimization.offload_param.device";
constexpr std::string_view kStateDevice = "zero_optimization.offload_optimizer.device";

std::optional<int64_t> batch_key(const DeepSpeedMapper& m, std::string_view path) {
  if (!m.file.has(path)) return {};
  const int64_t value = m.file.whole(path);
  if (value < 1) throw m.refusal(path, "is {} and must be at least 1", value);
  return value;
}

// What is left of the sequences of a step for one of the factors: a whole number, or a refusal.
int64_t left_of_step(const DeepSpeedMapper& m, int64_t train, int64_t other,
                     std::string_view other_words) {
  const int64_t each = checked_mul(other, m.replicas, "sequences of all ranks");
  if (train % each != 0) {
    throw m
        .refusal(kTrain, "is {}, which is no multiple of {}{} on {}", train, other, other_words,
                 counted(m.replicas, "rank"))
        .hint("--ranks N, or --gpu NAMExN, says how many ranks there are");
  }
  return train / each;
}

[[noreturn]] void refuse_batches(const DeepSpeedMapper& m, int64_t train, int64_t micro,
                                 int64_t accum) {
  const int64_t each = checked_mul(micro, accum, "sequences of a rank");
  Error error =
      m.refusal(kTrain, "is {}, but {} {} x {} {} x {} is {}", train, kMicro, micro, kSteps, accum,
                counted(m.replicas, "rank"), checked_mul(each, m.replicas, "sequences per step"));
  if (train % each != 0) throw error;
  throw std::move(error).hint(fmt::format("it is for {}: --ranks {}, or --gpu NAMEx{}",
                                          counted(train / each, "rank"), train / each,
                                          train / each));
}

// --- precision -----------------------------------------------------------------------------------

void map_loss_scale(DeepSpeedMapper& m) {
  const double fixed = m.file.number("fp16.loss_scale");
  const int64_t power = m.file.whole("fp16.initial_scale_power");
  constexpr int64_t kLargest = 127;
  if (power > kLargest)
    throw m.refusal("fp16.initial_scale_power", "is {}: 2^{} is no fp32 number", power, power);
  const LossScale scale =
      fixed > 0 ? LossScale{.start = fixed} : LossScale{.start = std::exp2(power), .dynamic = true};
  if (m.file.has("fp16.loss_scale")) m.set("fp16.loss_scale", {{&Options::loss_scale, scale}});
  if (fixed > 0) {
    for (const char* key : {"initial_scale_power", "loss_scale_window", "hysteresis",
                            "consecutive_hysteresis", "min_loss_scale"})
      m.say(fmt::format("fp16.{}", key), "the loss scale is fixed");
    return;
  }
  if (m.file.has("fp16.initial_scale_power"))
    m.set("fp16.initial_scale_power", {{&Options::loss_scale, scale}});
  if (m.file.has("fp16.loss_scale_window"))
    m.set("fp16.loss_scale_window",
          {{&Options::loss_scale_interval, m.file.whole("fp16.loss_scale_window")}});
}

// Masters and gradients in 16 bits.
void map_no_master(DeepSpeedMapper& m, ComputeType compute) {
  const std::string type = print_setting(compute);
  const std::string path = fmt::format("{}.{}_master_weights_and_grads", type, type);
  if (!m.file.flag(path)) return;
  if (compute == ComputeType::fp16 && m.file.whole(kStage) != 2)
    throw m.refusal(path, "needs ZeRO stage 2, and the stage is {}", m.file.whole(kStage));
  m.set(path, {{&Options::master, Master::none}, {&Options::grad_dtype, compute}});
}

// --- offload -------------------------------------------------------------------------------------

// "none", "cpu" or "nvme", as DeepSpeed takes it in this stage.
std::string device_of(DeepSpeedMapper& m, std::string_view path, std::string_view deprecated,
                      int64_t least_stage) {
  std::string device = m.file.text(path);
  const std::string_view key = m.file.find(deprecated) != nullptr ? deprecated : path;
  if (m.file.flag(deprecated)) device = "cpu";
  const int64_t stage = m.file.whole(kStage);
  if (device == "none") return device;
  if (stage < least_stage) {
    m.say(key, least_stage == 3 ? "only in stage 3, as in DeepSpeed"
                                : "only under ZeRO, as in DeepSpeed");
    return "none";
  }
  if (device == "nvme" && stage < 3) {
    m.show(path, "nvme = cpu");
    m.say(path, fmt::format("in stage {} DeepSpeed takes nvme for cpu, and so does this", stage));
    return "cpu";
  }
  return device;
}

// Of the layers whose state is offloaded: "", or "@0-15".
std::string offloaded_layers(DeepSpeedMapper& m) {
  constexpr std::string_view kRatio = "zero_optimization.offload_optimizer.ratio";
  const double ratio = m.file.number(kRatio);
  if (ratio > 1) throw m.refusal(kRatio, "is {} and must be from 0 to 1", ratio);
  if (ratio == 1) return "";
  if (m.file.whole(kStage) != 3)
    throw m.refusal(kRatio, "is {}: DeepSpeed offloads a part in stage 3 only", ratio);
  const auto layers =
      static_cast<int64_t>(std::lround(ratio * static_cast<double>(m.place.layers)));
  if (layers < 1) return "none";
  m.say(kRatio, fmt::format("{} of {} layers", layers, m.place.layers));
  return layers == 1 ? "@0" : fmt::format("@0-{}", layers - 1);
}

std::string item(std::string_view name, std::string_view layers, const std::string& device) {
  return fmt::format("{}{}{}", name, layers, device == "nvme" ? "=disk" : "");
}

}  // namespace

void map_mesh(DeepSpeedMapper& m) {
  int64_t tp = m.place.tp, pp = m.place.pp;
  if (const int64_t asked = m.file.whole(kTensorRanks); asked > 1) {
    m.set(kTensorRanks, {{&Options::tp, asked}}, fmt::format("{} ranks share each matrix", asked));
    if (tp == 1) tp = asked;
  }
  const DeepSpeedEntry* stages = m.file.find(kStages);
  if (stages != nullptr && stages->value.is_number_integer()) {
    const auto asked = stages->value.get<int64_t>();
    if (asked < 1) throw m.refusal(kStages, "is {} and must be at least 1", asked);
    if (asked > 1)
      m.set(kStages, {{&Options::pp, asked}}, fmt::format("layers in {} stages", asked));
    if (pp == 1) pp = asked;
  } else if (stages != nullptr) {
    m.say(kStages, "left to --pp");
  }
  if (pp == 1) {
    m.say_of_block("pipeline.", kStages, "only with stages");
  } else if (const int64_t interval = m.file.whole(kInterval); interval > 0) {
    m.set(kInterval, {{&Options::recompute,
                       RecomputePolicy{.kind = RecomputePolicy::Kind::every, .every = interval}}});
  }
  // What the file does not divide, DeepSpeed does not: the mesh is not open.
  if (m.place.ranks > 1 && tp == 1 && pp == 1) m.set(kTensorRanks, {{&Options::tp, int64_t{1}}});
  const int64_t together = checked_mul(tp, pp, "the ranks of a replica");
  if (m.place.ranks > 1 && m.place.ranks % together != 0) {
    throw m
        .refusal(tp > 1 ? kTensorRanks : kStages, "makes {} of {}, and there are {}",
                 tp > 1 && pp > 1 ? "stages and tensor-parallel ranks, together" : "groups",
                 counted(together, "rank"), m.place.ranks)
        .hint("--ranks N, or --gpu NAMExN, says how many ranks there are");
  }
  m.replicas = std::max<int64_t>(1, m.place.ranks / together);
}

// Any two of the three give the third, and one alone is without accumulation.
void map_batches(DeepSpeedMapper& m) {
  const auto train = batch_key(m, kTrain);
  const auto micro = batch_key(m, kMicro);
  const auto steps = batch_key(m, kSteps);
  if (!train && !micro) {
    const bool open = m.is_open(kTrain) || m.is_open(kMicro);
    if (!open && !m.place.batch_given) {
      throw bad_input("{}: neither {} nor {} is there, and DeepSpeed needs one of them",
                      m.file.where(), kTrain, kMicro)
          .hint("--batch says it on the command line");
    }
    if (steps) m.set(kSteps, {{&Options::accum, *steps}});
    return;
  }
  int64_t batch = micro.value_or(0);
  int64_t accum = steps.value_or(1);
  if (!micro) batch = left_of_step(m, *train, accum, " micro-batches");
  if (train && micro && !steps) accum = left_of_step(m, *train, *micro, " sequences");
  if (train && *train != checked_mul(checked_mul(batch, accum, "sequences of a rank"), m.replicas,
                                     "sequences per step"))
    refuse_batches(m, *train, batch, accum);
  m.set(micro ? kMicro : kTrain, {{&Options::batch, batch}});
  m.set(steps ? kSteps : train ? kTrain : kMicro, {{&Options::accum, accum}});
  m.say(kTrain, fmt::format("{} x {} x {}", counted(batch, "sequence"),
                            counted(accum, "micro-batch"), counted(m.replicas, "rank")));
}

void map_precision(DeepSpeedMapper& m) {
  const bool fp16 = m.file.flag("fp16.enabled");
  const bool bf16 = m.file.flag("bf16.enabled");
  if (fp16 && bf16)
    throw m.refusal("fp16.enabled", "and bf16.enabled are both true; DeepSpeed allows one");
  const bool open = m.is_open("fp16.enabled") || m.is_open("bf16.enabled");
  if (!fp16) m.say_of_block("fp16.", "fp16.enabled", "fp16 is not on");
  if (!bf16) m.say_of_block("bf16.", "bf16.enabled", "bf16 is not on");
  if (fp16) {
    m.set("fp16.enabled", {{&Options::precision, ComputeType::fp16}});
    map_loss_scale(m);
    map_no_master(m, ComputeType::fp16);
  } else if (bf16) {
    m.set("bf16.enabled", {{&Options::precision, ComputeType::bf16}});
    map_no_master(m, ComputeType::bf16);
    if (m.file.flag("bf16.bf16_optimizer_states"))
      m.set("bf16.bf16_optimizer_states", {{&Options::state_dtype, StateType::bf16}});
  } else if (!open) {
    const bool said = m.file.find("fp16.enabled") != nullptr;
    m.set(said ? "fp16.enabled" : "bf16.enabled", {{&Options::precision, ComputeType::fp32}},
          "fp32 weights and activations: neither fp16 nor bf16 is on");
  }
  constexpr std::string_view kSums = "data_types.grad_accum_dtype";
  if (m.file.has(kSums))
    m.set(kSums, {{&Options::grad_dtype,
                   parse_setting<Open<ComputeType>>(m.file.text(kSums), "grad-dtype")}});
  if (m.file.has("gradient_clipping"))
    m.set("gradient_clipping", {{&Options::clip, m.file.number("gradient_clipping")}});
}

void map_zero(DeepSpeedMapper& m) {
  const int64_t stage = m.file.whole(kStage);
  if (m.replicas == 1 && stage > 0) {
    m.say(kStage, "one rank: ZeRO needs at least two (--ranks N, --gpu NAMExN)");
  } else if (m.replicas > 1) {
    constexpr const char* kShared[] = {"every rank has all of it",
                                       "ranks share masters and moments",
                                       "ranks share masters, moments and gradients",
                                       "ranks share parameters, masters, moments and gradients"};
    m.set(kStage, {{&Options::zero, static_cast<ZeroLevel>(stage)}}, kShared[stage]);
  }
  if (stage < 3) {
    m.say_of_block("zero_optimization.stage3_", "", "only in stage 3");
    return;
  }
  // As Hugging Face fills it in.
  const auto width = m.place.width;
  for (const auto& [key, value] :
       {std::pair<const char*, int64_t>{"reduce_bucket_size", width * width},
        {"stage3_prefetch_bucket_size", width * width * 9 / 10},
        {"stage3_param_persistence_threshold", 10 * width}}) {
    const std::string path = fmt::format("zero_optimization.{}", key);
    if (m.is_open(path)) m.show(path, fmt::format("auto = {}", format_exact(value)));
  }
  if (m.file.has(kSharers) && m.file.whole(kSharers) > 1 && m.replicas > 1)
    m.set(kSharers,
          {{&Options::shard, Shard{.kind = Shard::Kind::hybrid, .group = m.file.whole(kSharers)}}});
  if (m.replicas == 1) {
    m.say(kThreshold, "one rank: every parameter is whole");
  } else if (m.is_open(kThreshold)) {
    m.set(kThreshold, {{&Options::zero_threshold, 10 * width}});
  } else if (m.file.has(kThreshold)) {
    m.set(kThreshold, {{&Options::zero_threshold, m.file.whole(kThreshold)}});
  }
}

void map_offload(DeepSpeedMapper& m) {
  const std::string state = device_of(m, kStateDevice, "zero_optimization.cpu_offload", 1);
  const std::string params = device_of(m, kParamDevice, "zero_optimization.cpu_offload_param", 3);
  const std::string layers = state == "none" ? "none" : offloaded_layers(m);
  std::vector<std::string> items;
  if (layers != "none")
    for (const char* name : {"optimizer", "master", "grads"})
      items.push_back(item(name, layers, state));
  if (params != "none") items.push_back(item("params", "", params));
  if (items.empty()) {
    for (const std::string_view path : {kStateDevice, kParamDevice})
      if (m.file.has(path) && m.file.text(path) == "none")
        m.set(path, {{&Options::offload, Offload{}}});
    return;
  }
  const Change change{{&Options::offload, parse_setting<Offload>(join(items, ","), "offload")}};
  const auto key_of = [&](std::string_view device, const char* deprecated) {
    return m.file.find(deprecated) != nullptr ? std::string_view(deprecated) : device;
  };
  if (layers != "none") m.set(key_of(kStateDevice, "zero_optimization.cpu_offload"), change);
  if (params != "none") m.set(key_of(kParamDevice, "zero_optimization.cpu_offload_param"), change);
  for (const auto& [block, device] : {std::pair{"offload_param", params},
                                      {"offload_optimizer", layers == "none" ? layers : state}}) {
    const std::string path = fmt::format("zero_optimization.{}.nvme_path", block);
    if (device != "nvme")
      m.say(path, "only with device nvme");
    else if (m.file.has(path))
      m.set(path, {{&Options::offload_dir, m.file.text(path)}});
  }
}

void map_checkpointing(DeepSpeedMapper& m) {
  const auto would = [&](const char* key, const std::string& flags) {
    const std::string path = fmt::format("activation_checkpointing.{}", key);
    m.say(path, fmt::format("nothing unless the model asks, as in DeepSpeed; here {}", flags));
  };
  if (m.file.flag("activation_checkpointing.cpu_checkpointing"))
    would("cpu_checkpointing", "--offload activations");
  if (m.file.has("activation_checkpointing.number_checkpoints"))
    would("number_checkpoints", "--recompute full");
  if (m.file.flag("activation_checkpointing.partition_activations"))
    m.say("activation_checkpointing.partition_activations",
          "for tensor parallel: each rank has all");
}

}  // namespace snug
