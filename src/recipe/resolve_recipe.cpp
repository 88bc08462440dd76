// The techniques: words to settings, defaults made explicit, contradictions named.
#include <array>
#include <cmath>
#include <utility>

#include "base/number.h"
#include "base/units.h"
#include "cost/device_catalogue.h"
#include "recipe/mesh_options.h"
#include "recipe/option_checks.h"
#include "recipe/resolve.h"
#include "recipe/techniques.h"

namespace snug {
namespace {

constexpr double kFp16Start = 65536;

// A step of G sequences is ceil(G / batch) micro-batches, each of a batch on every rank.
void resolve_global_batch(Options& o, bool mesh_is_open) {
  require_at_least(0, o.accum, "accum");
  require_at_least(0, o.global_batch, "global-batch");
  if (!mesh_is_open) require_sequences(o);
  const int64_t each = checked_mul(o.batch, mesh_of(o).dp, "sequences of all ranks");
  const int64_t implied = o.global_batch == 0 ? 1 : micro_batches_of(o.global_batch, each);
  if (o.global_batch > 0 && o.accum > 0 && o.accum != implied) {
    throw usage_error("--global-batch {} takes {} of --batch {}, but --accum is {}", o.global_batch,
                      counted(implied, "micro-batch"), o.batch, o.accum)
        .hint(
            "leave one of --accum and --global-batch out; a 0 takes back what a config file says");
  }
  if (o.accum == 0) o.accum = implied;
  if (o.global_batch == 0) o.global_batch = checked_mul(each, o.accum, "sequences per step");
}

// FSDP's words for ZeRO's stages. What ranks share in groups may be any of them.
std::string zero_of(const Options& o) {
  if (o.shard.empty()) return o.zero;
  if (o.shard.starts_with("hybrid:")) {
    require_word(o.zero, "zero", {"auto", "1", "2", "3"});
    return o.zero == "auto" ? "3" : o.zero;
  }
  if (o.zero != "auto") {
    throw usage_error("--zero {} and --shard {} say the same thing twice", o.zero, o.shard)
        .hint("leave one of them out");
  }
  require_word(o.shard, "shard", {"none", "grad-op", "full", "hybrid:N"});
  return o.shard == "none" ? "0" : o.shard == "full" ? "3" : "2";
}

void resolve_sharding(Options& o, Recipe& r) {
  constexpr int64_t kMostRanks = 1 << 16;
  o.ranks = ranks_of(o);
  require_between(1, kMostRanks, static_cast<double>(o.ranks), "ranks");
  require_at_least(0, o.zero_threshold, "zero-threshold");
  const std::string stage = zero_of(o);
  require_word(stage, "zero", {"auto", "0", "1", "2", "3"});
  const MeshSizes mesh = mesh_of(o);
  o.tp = mesh.tp;
  o.pp = mesh.pp;
  o.mesh.clear();  // with the ranks these say it all
  if (mesh.dp == 1 && stage != "auto" && stage != "0") {
    throw usage_error("--zero {} with one rank{}: there is nobody to share with", stage,
                      o.ranks > 1 ? " on the mesh's axis dp" : "")
        .hint("--ranks N starts several; mpirun, torchrun and srun do, too");
  }
  const int64_t sharers = sharers_of(o);
  if (sharers == mesh.dp) o.shard.clear();
  o.zero = stage != "auto" ? stage : mesh.dp > 1 ? "1" : "0";
  r.mesh = {.pp = mesh.pp, .tp = mesh.tp};
  r.sharding = {.ranks = mesh.dp,
                .stage = o.zero[0] - '0',
                .threshold = o.zero_threshold,
                .group = sharers == mesh.dp ? 0 : sharers};
  go_to_rank(o.rank, r.mesh, r.sharding);
}

// A GPU computes in bf16, which all that the kernels are for have, and masters in fp32 keep what is
// learned; a CPU computes in fp32, and so does a GPU that is told how. Less than 16 bits is never
// chosen here.
void resolve_precision(Options& o, Recipe& r) {
  if (o.precision == "auto") o.precision = r.backend == Backend::cuda && !o.tf32 ? "bf16" : "fp32";
  r.precision = parse_precision(o.precision, "precision");
  r.master = parse_master(o.master);
}

void resolve_grad_dtype(Options& o, Recipe& r) {
  if (o.grad_dtype == "auto") o.grad_dtype = o.accum == 1 ? o.precision : "fp32";
  r.grad_dtype = parse_precision(o.grad_dtype, "grad-dtype");
  if (r.grad_dtype != Dtype::f32 && r.grad_dtype != r.precision) {
    throw usage_error(
        "--grad-dtype {} under --precision {}: gradients are in fp32 or in the type "
        "of the weights",
        o.grad_dtype, o.precision);
  }
}

void resolve_loss_scale(Options& o, Recipe& r) {
  require_at_least(1, o.loss_scale_interval, "loss-scale-interval");
  r.loss_scale.interval = o.loss_scale_interval;
  if (o.loss_scale == "auto") o.loss_scale = r.precision == Dtype::f16 ? "dynamic" : "none";
  if (o.loss_scale == "none") return;
  constexpr std::string_view kDynamic = "dynamic:";
  if (o.loss_scale == "dynamic") o.loss_scale = fmt::format("{}{}", kDynamic, kFp16Start);
  std::string_view number = o.loss_scale;
  r.loss_scale.dynamic = number.starts_with(kDynamic);
  if (r.loss_scale.dynamic) number.remove_prefix(kDynamic.size());
  if (!read_number(number, r.loss_scale.start)) {
    throw usage_error("--loss-scale '{}' is not auto, none, dynamic, dynamic:START or a number",
                      o.loss_scale);
  }
  if (!(r.loss_scale.start >= 1 && std::isfinite(static_cast<float>(r.loss_scale.start))))
    throw usage_error("--loss-scale {}: a scale is at least 1 and finite", o.loss_scale);
}

void resolve_optimizer(Options& o, Recipe& r) {
  r.optimizer = parse_optimizer(o.optimizer);
  r.state_dtype = parse_state_dtype(o.state_dtype);
  if (o.beta2 < 0) o.beta2 = r.optimizer == OptimizerKind::lion ? 0.99 : 0.95;
  require_between(0, 0.999999, o.beta1, "beta1");
  require_between(0, 0.999999, o.beta2, "beta2");
  require_between(0, 1, o.eps, "eps");
  require_between(0, 0.999999, o.momentum, "momentum");
  require_between(0, 1e3, o.weight_decay, "weight-decay");
  require_between(0, 1e9, o.clip, "clip");
  r.beta1 = o.beta1;
  r.beta2 = o.beta2;
  r.eps = o.eps;
  r.momentum = o.momentum;
  r.weight_decay = o.weight_decay;
  r.clip = o.clip;
}

void resolve_micro_order(Options& o, Recipe& r) {
  constexpr std::string_view kGroups = "groups:";
  if (o.micro_order == "auto") o.micro_order = "horizontal";
  if (o.micro_order.starts_with(kGroups)) {
    const std::string_view number = std::string_view(o.micro_order).substr(kGroups.size());
    if (!read_number(number, r.micro_group) || r.micro_group < 1)
      throw usage_error("--micro-order '{}': '{}' is not a number of micro-batches", o.micro_order,
                        number);
    if (r.accum % r.micro_group != 0) {
      throw usage_error("--micro-order {}: a step of {} has no whole number of such groups",
                        o.micro_order, counted(r.accum, "micro-batch"));
    }
    return;
  }
  require_word(o.micro_order, "micro-order", {"auto", "horizontal", "vertical", "groups:K"});
  r.micro_group = o.micro_order == "vertical" ? r.accum : 1;
}

void resolve_offload(Options& o, Recipe& r) {
  constexpr int32_t kFarthest = 8;  // staging grows with it, and soon nothing is gained
  if (o.offload == "auto") o.offload = "none";
  r.offload = parse_offload(o.offload);
  o.offload = text(r.offload);
  require_between(0, kFarthest, static_cast<double>(o.offload_ahead), "offload-ahead");
  if (o.offload_ahead == 0) o.offload_ahead = r.offload.ahead;
  r.offload.ahead = static_cast<int32_t>(o.offload_ahead);
}

// As in DeepSpeed, where only stage 3 offloads parameters.
void refuse_whole_parameters_elsewhere(const Options& o, const Recipe& r) {
  if (!r.sharding.on() || r.sharding.stage == 3 || !r.offload.moves(OffloadItem::params)) return;
  throw usage_error("--offload {} under --zero {}: parameters leave the device in shards",
                    o.offload, o.zero)
      .hint("give --zero 3, or leave params on the device");
}

// "interleaved:2": 2; 1 of other schedules.
int64_t chunks_of(const std::string& schedule) {
  constexpr std::string_view kInterleaved = "interleaved:";
  if (!schedule.starts_with(kInterleaved)) {
    require_word(schedule, "pp-schedule", {"auto", "1f1b", "interleaved:V", "zero-bubble"});
    if (schedule != "interleaved:V") return 1;
  }
  constexpr int64_t kMost = 10'000;
  int64_t chunks = 0;
  if (!read_number(std::string_view(schedule).substr(kInterleaved.size()), chunks) || chunks < 2 ||
      chunks > kMost)
    throw usage_error("--pp-schedule {}: it is interleaved:V, with 2 to {} chunks of layers",
                      schedule, format_exact(kMost))
        .hint("interleaved:2 is usual");
  return chunks;
}

void resolve_pp_schedule(Options& o, Recipe& r, bool mesh_is_open) {
  r.mesh.chunks = chunks_of(o.pp_schedule);
  if (o.pp_schedule == "auto") o.pp_schedule = "1f1b";
  if (o.pp_schedule == "1f1b") return;
  if (o.pp_schedule == "zero-bubble") r.pp_schedule = PipelineSchedule::zero_bubble;
  if (r.mesh.pp == 1) {
    r.mesh.chunks = 1;
    r.pp_schedule = {};
    if (mesh_is_open) return;
    throw usage_error("--pp-schedule {} without stages", o.pp_schedule).hint("--pp N gives them");
  }
}

// What a pipeline does not have.
void refuse_beside_stages(const Options& o, const Recipe& r) {
  if (r.mesh.pp == 1) return;
  const auto refuse = [&](const std::string& what, std::string_view why) {
    return usage_error("{} with --pp {}: {}", what, r.mesh.pp, why);
  };
  if (r.micro_group > 1)
    throw refuse("--micro-order " + o.micro_order,
                 "stages have an order of micro-batches of their own");
  if (r.update_in_backward)
    throw refuse("--update-in-backward", "a stage's update waits for the loss of the last one");
  if (r.offload.moves(OffloadItem::activations))
    throw refuse("--offload " + o.offload,
                 "what several micro-batches keep for backward stays on the device")
        .hint("--recompute keeps less");
  if (r.recompute.kind == RecomputePolicy::Kind::automatic)
    throw refuse("--recompute " + o.recompute, "how much to recompute is not searched there")
        .hint("give --recompute none, every:K or full");
}

// On a GPU it hides what state that lives elsewhere takes to move.
void resolve_fold_update(Options& o, Recipe& r) {
  require_word(o.fold_update, "fold-update", {"auto", "on", "off"});
  if (o.fold_update == "on" && r.update_in_backward) {
    throw usage_error("--fold-update on and --update-in-backward: an update is made once")
        .hint("leave one of them out");
  }
  if (o.fold_update == "auto") {
    const bool moves =
        r.offload.moves(OffloadItem::optimizer) || r.offload.moves(OffloadItem::master);
    // Stages' first forwards are one after another, and what is folded into them would be, too.
    const bool may_fold = r.mesh.pp == 1 && !r.update_in_backward;
    o.fold_update = moves && r.backend == Backend::cuda && may_fold ? "on" : "off";
  }
  r.fold_update = o.fold_update == "on";
}

// What works on all of a matrix at once, or on gradients before ranks have added them up.
void refuse_under_tensor_ranks(const Options& o, const Recipe& r) {
  if (r.mesh.tp == 1) return;
  const auto refuse = [&](bool asked, std::string_view what) {
    if (asked) throw usage_error("--tp {} with {}: ranks do not share that yet", o.tp, what);
  };
  refuse(r.adapters.on(), "--lora");
  refuse(r.base != BaseKind::plain, "--base-dtype");
  refuse(r.optimizer == OptimizerKind::adam_mini, "--optimizer adam-mini");
  refuse(r.optimizer == OptimizerKind::adamw8bit, "--optimizer adamw8bit");
  refuse(r.update_in_backward, "--update-in-backward");
}

// As the user wrote it, where all of it is the arena's.
std::string auto_within(const Options& o, int64_t arena) {
  return context_bytes(backend_of(o)) == 0 && !o.budget.empty() ? "auto:" + o.budget
                                                                : fmt::format("auto:{}", arena);
}

}  // namespace

int64_t ranks_of(const Options& o) {
  const int64_t devices = o.gpu.empty() ? 1 : devices_in(o.gpu);
  if (devices > 1 && o.ranks > 0 && o.ranks != devices)
    throw usage_error("--gpu {} and --ranks {}: a rank has a GPU of its own", o.gpu, o.ranks);
  const int64_t said = o.ranks == 0 && devices == 1 ? 0 : std::max(o.ranks, devices);
  return mesh_for(o, said).ranks();
}

MeshSizes mesh_of(const Options& o) { return mesh_for(o, ranks_of(o)); }

int64_t sharers_of(const Options& o) {
  constexpr std::string_view kHybrid = "hybrid:";
  const int64_t ranks = mesh_of(o).dp;
  if (!o.shard.starts_with(kHybrid)) return ranks;
  int64_t sharers = 0;
  if (!read_number(std::string_view(o.shard).substr(kHybrid.size()), sharers) || sharers < 2)
    throw usage_error("--shard {}: it is hybrid:N, with two ranks or more that share", o.shard);
  if (ranks % sharers != 0) {
    throw usage_error("--shard {}: {} are no whole number of such groups", o.shard,
                      counted(ranks, "rank"))
        .hint("give a divisor of the ranks, best what one machine has");
  }
  return sharers;
}

int64_t micro_batches_of(int64_t sequences, int64_t batch) {
  checked_add(sequences, batch, "a step");
  return ceil_div(sequences, batch);
}

Backend backend_of(const Options& o) { return o.device == "cuda" ? Backend::cuda : Backend::cpu; }

Recipe settle_recipe(Options& o, std::optional<int64_t> budget) {
  Recipe r;
  r.backend = backend_of(o);
  r.fused_recompute = r.backend == Backend::cuda;
  const bool mesh_is_open = leaves_mesh_open(o);
  resolve_sharding(o, r);
  resolve_global_batch(o, mesh_is_open);
  resolve_pp_schedule(o, r, mesh_is_open);
  r.accum = o.accum;
  r.sums_apart = o.deterministic;
  resolve_micro_order(o, r);
  if (o.recompute == "auto" && r.mesh.pp > 1) o.recompute = "none";
  if (o.recompute == "auto") o.recompute = budget ? auto_within(o, *budget) : "none";
  r.recompute = parse_recompute(o.recompute);
  r.compress = parse_compress(o.compress);
  resolve_offload(o, r);
  refuse_whole_parameters_elsewhere(o, r);
  if (o.host_update == "auto") o.host_update = "none";
  r.host_update = parse_host_update(o.host_update);
  o.host_update = text(r.host_update);
  r.adapters = parse_adapters(o.lora);
  o.lora = text(r.adapters);
  r.base = parse_base(o.base_dtype);
  resolve_precision(o, r);
  resolve_grad_dtype(o, r);
  resolve_loss_scale(o, r);
  resolve_optimizer(o, r);
  r.update_in_backward = o.update_in_backward;
  resolve_fold_update(o, r);
  refuse_beside_stages(o, r);
  refuse_under_tensor_ranks(o, r);
  for (const Technique& t : techniques())
    if (t.refuse != nullptr) t.refuse(o, r);
  return r;
}

double learning_rate_factor(const Options& o) {
  require_word(o.lr_scale, "lr-scale", {"none", "linear", "sqrt"});
  require_at_least(0, o.base_batch, "base-batch");
  if (o.lr_scale == "none") return 1;
  if (o.base_batch == 0) {
    throw usage_error(
        "--lr-scale {} needs --base-batch: the sequences per step that --lr {} was "
        "chosen for",
        o.lr_scale, o.lr);
  }
  const double ratio = static_cast<double>(o.global_batch) / static_cast<double>(o.base_batch);
  return o.lr_scale == "linear" ? ratio : std::sqrt(ratio);
}

}  // namespace snug
