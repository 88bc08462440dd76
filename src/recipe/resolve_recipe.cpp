// The techniques: words to settings, defaults made explicit, contradictions named.
#include <cmath>

#include "base/units.h"
#include "cost/device_catalogue.h"
#include "recipe/mesh_options.h"
#include "recipe/resolve.h"
#include "settings/option_checks.h"
#include "techniques/techniques.h"

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

// What FSDP's words mean in ZeRO's levels. What ranks share in groups may be any of them.
Open<ZeroLevel> level_of(const Options& o) {
  switch (o.shard.kind) {
    case Shard::Kind::not_given:
      return o.zero;
    case Shard::Kind::hybrid:
      if (o.zero == ZeroLevel::none)
        throw usage_error("--shard {} and --zero 0: nothing would be shared", text(o.shard))
            .hint("--zero 1, 2 or 3; 3 where it is not given");
      return o.zero.value_or(ZeroLevel::parameters);
    default:
      break;
  }
  if (o.zero) {
    throw usage_error("--zero {} and --shard {} say the same thing twice", print_setting(o.zero),
                      text(o.shard))
        .hint("leave one of them out");
  }
  return o.shard.kind == Shard::Kind::none   ? ZeroLevel::none
         : o.shard.kind == Shard::Kind::full ? ZeroLevel::parameters
                                             : ZeroLevel::gradients;
}

void resolve_sharding(Options& o, Recipe& r, int64_t rank) {
  constexpr int64_t kMostRanks = 1 << 16;
  o.ranks = ranks_of(o);
  require_between(1, kMostRanks, static_cast<double>(o.ranks), "ranks");
  require_at_least(0, o.zero_threshold, "zero-threshold");
  const Open<ZeroLevel> level = level_of(o);
  const MeshSizes mesh = mesh_of(o);
  o.tp = mesh.tp;
  o.pp = mesh.pp;
  o.mesh = {};  // with the ranks these say it all
  if (mesh.dp == 1 && level.value_or(ZeroLevel::none) != ZeroLevel::none) {
    throw usage_error("--zero {} with one rank{}: ZeRO needs at least two data-parallel ranks",
                      print_setting(level), o.ranks > 1 ? " on the mesh's axis dp" : "")
        .hint("--ranks N starts several; mpirun, torchrun and srun do, too");
  }
  const int64_t sharers = sharers_of(o);
  if (sharers == mesh.dp) o.shard = {};
  o.zero = level.value_or(mesh.dp > 1 ? ZeroLevel::state : ZeroLevel::none);
  r.mesh = {.pp = mesh.pp, .tp = mesh.tp};
  r.sharding = {.ranks = mesh.dp,
                .level = static_cast<int64_t>(*o.zero),
                .threshold = o.zero_threshold,
                .group = sharers == mesh.dp ? 0 : sharers};
  go_to_rank(rank, r.mesh, r.sharding);
}

Dtype dtype_of(ComputeType type) {
  return type == ComputeType::bf16   ? Dtype::bf16
         : type == ComputeType::fp16 ? Dtype::f16
                                     : Dtype::f32;
}

// A GPU computes in bf16, which all that the kernels are for have, and masters in fp32 keep what is
// learned; a CPU computes in fp32, and so does a GPU that is told how. Less than 16 bits is never
// chosen here.
void resolve_precision(Options& o, Recipe& r) {
  if (!o.precision)
    o.precision = r.backend == Backend::cuda && !o.tf32 ? ComputeType::bf16 : ComputeType::fp32;
  r.precision = dtype_of(*o.precision);
  r.master = o.master == Master::fp32;
}

void resolve_grad_dtype(Options& o, Recipe& r) {
  if (!o.grad_dtype) o.grad_dtype = o.accum == 1 ? *o.precision : ComputeType::fp32;
  r.grad_dtype = dtype_of(*o.grad_dtype);
  if (r.grad_dtype != Dtype::f32 && r.grad_dtype != r.precision) {
    throw usage_error(
        "--grad-dtype {} under --precision {}: gradients are in fp32 or in the type "
        "of the weights",
        print_setting(o.grad_dtype), print_setting(o.precision));
  }
}

void resolve_loss_scale(Options& o, Recipe& r) {
  require_at_least(1, o.loss_scale_interval, "loss-scale-interval");
  if (!o.loss_scale)
    o.loss_scale =
        r.precision == Dtype::f16 ? LossScale{.start = kFp16Start, .dynamic = true} : LossScale{};
  r.loss_scale = *o.loss_scale;
  r.loss_scale.interval = o.loss_scale_interval;
}

void resolve_optimizer(Options& o, Recipe& r) {
  r.optimizer = o.optimizer;
  r.state_dtype = o.state_dtype == StateType::bf16 ? Dtype::bf16 : Dtype::f32;
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
  if (!o.micro_order) o.micro_order = MicroOrder{};
  switch (o.micro_order->kind) {
    case MicroOrder::Kind::horizontal:
      r.micro_group = 1;
      return;
    case MicroOrder::Kind::vertical:
      r.micro_group = r.accum;
      return;
    case MicroOrder::Kind::groups:
      break;
  }
  r.micro_group = o.micro_order->group;
  if (r.accum % r.micro_group == 0) return;
  throw usage_error("--micro-order {}: a step of {} has no whole number of such groups",
                    text(*o.micro_order), counted(r.accum, "micro-batch"));
}

void resolve_offload(Options& o, Recipe& r) {
  constexpr int32_t kFarthest = 8;  // staging grows with it, and soon nothing is gained
  if (!o.offload) o.offload = Offload{};
  r.offload = *o.offload;
  require_between(0, kFarthest, static_cast<double>(o.offload_ahead), "offload-ahead");
  if (o.offload_ahead == 0) o.offload_ahead = r.offload.ahead;
  r.offload.ahead = static_cast<int32_t>(o.offload_ahead);
}

// As in DeepSpeed, where only stage 3 offloads parameters.
void refuse_offloaded_whole_parameters(const Recipe& r) {
  if (!r.sharding.on() || r.sharding.level == 3 || !r.offload.moves(OffloadItem::params)) return;
  throw usage_error("--offload {} under --zero {}: parameters leave the device in shards",
                    text(r.offload), r.sharding.level)
      .hint("give --zero 3, or leave params on the device");
}

void resolve_pp_schedule(Options& o, Recipe& r, bool mesh_is_open) {
  if (!o.pp_schedule) o.pp_schedule = StageOrder{};
  r.mesh.chunks = o.pp_schedule->chunks;
  r.pp_schedule = o.pp_schedule->schedule;
  if (*o.pp_schedule == StageOrder{} || r.mesh.pp > 1) return;
  r.mesh.chunks = 1;
  r.pp_schedule = {};
  if (mesh_is_open) return;
  throw usage_error("--pp-schedule {} without stages", text(*o.pp_schedule))
      .hint("--pp N gives them");
}

// What a pipeline does not have.
void refuse_with_stages(const Options& o, const Recipe& r) {
  if (r.mesh.pp == 1) return;
  const auto refuse = [&](const std::string& what, std::string_view why) {
    return usage_error("{} with --pp {}: {}", what, r.mesh.pp, why);
  };
  if (r.micro_group > 1)
    throw refuse("--micro-order " + text(*o.micro_order),
                 "stages have an order of micro-batches of their own");
  if (r.update_in_backward)
    throw refuse("--update-in-backward", "a stage's update waits for the loss of the last one");
  if (r.offload.moves(OffloadItem::activations))
    throw refuse("--offload " + text(r.offload),
                 "what several micro-batches keep for backward stays on the device")
        .hint("--recompute keeps less");
  if (r.recompute.kind == RecomputePolicy::Kind::automatic)
    throw refuse("--recompute " + text(r.recompute), "how much to recompute is not searched there")
        .hint("give --recompute none, every:K or full");
}

// On a GPU it hides the transfers of offloaded state.
void resolve_fold_update(Options& o, Recipe& r) {
  if (o.fold_update == FoldUpdate::on && r.update_in_backward) {
    throw usage_error("--fold-update on and --update-in-backward: an update is made once")
        .hint("leave one of them out");
  }
  if (!o.fold_update) {
    const bool moves =
        r.offload.moves(OffloadItem::optimizer) || r.offload.moves(OffloadItem::master);
    // Stages' first forwards are one after another, and what is folded into them would be, too.
    const bool may_fold = r.mesh.pp == 1 && !r.update_in_backward;
    o.fold_update =
        moves && r.backend == Backend::cuda && may_fold ? FoldUpdate::on : FoldUpdate::off;
  }
  r.fold_update = o.fold_update == FoldUpdate::on;
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

RecomputePolicy within(int64_t bytes) {
  return {.kind = RecomputePolicy::Kind::automatic, .bytes = bytes};
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
  const int64_t ranks = mesh_of(o).dp;
  if (o.shard.kind != Shard::Kind::hybrid) return ranks;
  if (ranks % o.shard.group != 0) {
    throw usage_error("--shard {}: {} are no whole number of such groups", text(o.shard),
                      counted(ranks, "rank"))
        .hint("give a divisor of the ranks, best what one machine has");
  }
  return o.shard.group;
}

int64_t micro_batches_of(int64_t sequences, int64_t batch) {
  checked_add(sequences, batch, "a step");
  return ceil_div(sequences, batch);
}

Backend backend_of(const Options& o) {
  return o.device == DeviceChoice::cuda ? Backend::cuda : Backend::cpu;
}

Recipe settle_recipe(Options& o, std::optional<int64_t> budget, int64_t rank) {
  Recipe r;
  r.backend = backend_of(o);
  r.fused_recompute = r.backend == Backend::cuda;
  const bool mesh_is_open = leaves_mesh_open(o);
  resolve_sharding(o, r, rank);
  resolve_global_batch(o, mesh_is_open);
  resolve_pp_schedule(o, r, mesh_is_open);
  r.accum = o.accum;
  r.sums_apart = o.deterministic;
  resolve_micro_order(o, r);
  if (!o.recompute) o.recompute = budget && r.mesh.pp == 1 ? within(*budget) : RecomputePolicy{};
  r.recompute = *o.recompute;
  r.compress = o.compress;
  resolve_offload(o, r);
  refuse_offloaded_whole_parameters(r);
  if (!o.host_update) o.host_update = HostUpdate{};
  r.host_update = *o.host_update;
  r.adapters = o.lora;
  r.base = o.base_dtype;
  resolve_precision(o, r);
  resolve_grad_dtype(o, r);
  resolve_loss_scale(o, r);
  resolve_optimizer(o, r);
  r.update_in_backward = o.update_in_backward;
  resolve_fold_update(o, r);
  refuse_with_stages(o, r);
  refuse_under_tensor_ranks(o, r);
  for (const Technique& t : techniques())
    if (t.refuse != nullptr) t.refuse(o, r);
  return r;
}

double learning_rate_factor(const Options& o) {
  require_at_least(0, o.base_batch, "base-batch");
  if (o.lr_scale == LrScale::none) return 1;
  if (o.base_batch == 0) {
    throw usage_error(
        "--lr-scale {} needs --base-batch: the sequences per step that --lr {} was "
        "chosen for",
        print_setting(o.lr_scale), o.lr);
  }
  const double ratio = static_cast<double>(o.global_batch) / static_cast<double>(o.base_batch);
  return o.lr_scale == LrScale::linear ? ratio : std::sqrt(ratio);
}

}  // namespace snug
