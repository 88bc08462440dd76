// Everything a run can be told, as typed values. Text becomes an Options at the edge, on the
// command line and in files, and is printed from it (settings/option.h has the one description of
// every option).
//
//   Options o;
//   o.model = "qwen2.5-0.5b";
//   o.batch = 32;
//   o.recompute = RecomputePolicy{.kind = RecomputePolicy::Kind::full};
//   set_option(o, "budget", "24GiB");      // snug/set_option.h: as --budget 24GiB
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "settings/allow.h"
#include "settings/amounts.h"
#include "settings/lr_schedule.h"
#include "settings/mesh.h"
#include "settings/run_words.h"
#include "settings/saving.h"
#include "techniques/accumulate/settings.h"
#include "techniques/adapters/settings.h"
#include "techniques/attention/settings.h"
#include "techniques/base/settings.h"
#include "techniques/compress/settings.h"
#include "techniques/host_update/settings.h"
#include "techniques/loss/settings.h"
#include "techniques/offload/settings.h"
#include "techniques/optimizer/settings.h"
#include "techniques/pipeline/settings.h"
#include "techniques/precision/settings.h"
#include "techniques/recompute/settings.h"
#include "techniques/zero/settings.h"

namespace snug {

// The steps of --profile without a value.
constexpr int64_t kProfileSteps = 3;

// A member that is Open<T> is "auto" where it has no value.
struct Options {
  std::string model;  // a built-in name, a config.json, or a Hugging Face directory

  // The computation.
  int64_t batch = 8;
  int64_t seq = 0;           // 0: 1024, or what the model can take
  int64_t accum = 0;         // 0: 1, or what the search chooses
  int64_t global_batch = 0;  // 0: batch x accum
  Open<MicroOrder> micro_order;
  Open<AttentionChoice> attention;
  Open<LossChoice> loss;
  Open<RecomputePolicy> recompute;
  CompressKind compress = CompressKind::none;
  Open<Offload> offload;      // its `ahead` is offload_ahead
  int64_t offload_ahead = 0;  // 0: 1, or what the search chooses
  std::string offload_dir;    // a run needs it where something is offloaded to disk
  MeshChoice mesh;
  int64_t tp = 0;  // 0: 1, or what --mesh says
  int64_t pp = 0;
  Open<StageOrder> pp_schedule;
  Open<ZeroLevel> zero;
  Shard shard;
  int64_t zero_threshold = 100'000;
  Adapters lora;
  BaseKind base_dtype = BaseKind::plain;
  Open<ComputeType> precision;
  Master master = Master::fp32;
  Open<ComputeType> grad_dtype;
  Open<LossScale> loss_scale;  // its `interval` is loss_scale_interval
  int64_t loss_scale_interval = 1000;
  double dropout = -1;  // < 0: as the model's configuration says
  ByteLimit budget;
  ByteLimit host_budget;
  ByteLimit disk_budget;
  Allow allow;  // what the search may change although it changes results
  bool explain = false;
  std::string gpu;  // of the catalogue: plans for it, with its memory as the budget
  Open<DeviceChoice> device;
  bool deterministic = false;
  bool tf32 = false;
  Open<Tune> tune;
  int64_t seed = 1;

  // Optimizer and schedule.
  OptimizerKind optimizer = OptimizerKind::adamw;
  StateType state_dtype = StateType::fp32;
  bool update_in_backward = false;
  Open<FoldUpdate> fold_update;
  Open<HostUpdate> host_update;
  double lr = 3e-4;
  LrScale lr_scale = LrScale::none;
  int64_t base_batch = 0;
  double beta1 = 0.9;
  double beta2 = -1;  // < 0: as the optimizer's authors say
  double eps = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.1;
  double clip = 1.0;
  int64_t warmup = 0;
  LrSchedule::Kind lr_schedule = LrSchedule::Kind::cosine;
  double min_lr = 0.1;

  // Training.
  std::string data = "auto";
  bool bytes = false;
  bool pack = false;
  LossOn loss_on = LossOn::completion;
  LongSamples long_samples = LongSamples::truncate;
  int64_t skip_bad = 0;
  int64_t token_bytes = 0;
  std::string cache;
  std::string eval_data;
  double holdout = 0;
  int64_t eval_every = 0;
  int64_t eval_batches = 8;
  bool no_shuffle = false;
  int64_t mask_token = -1;
  int64_t steps = 100;
  Open<StartFrom> init;
  std::string adapter;
  std::string out;
  bool overwrite = false;
  SaveInterval save_every;
  bool save_sync = false;
  int64_t keep = 2;
  int64_t keep_every = 0;
  std::string resume;
  bool resume_changed = false;
  bool new_data = false;
  OnNan on_nan;
  TimeSpan grace;
  int64_t profile = 0;
  std::string profile_dir;
  std::string tensorboard;
  int64_t log_every = 0;
  int64_t threads = 0;
  int64_t ranks = 0;  // 0: 1, or as many as the launcher of this process says
  bool log_ranks = false;
  bool share_gpu = false;
  bool json = false;

  // Names of the options that were given: what --resume takes to be asked for anew. A caller that
  // leaves it empty asks for what differs from the defaults.
  std::vector<std::string> given = {};
};

// As it is written: "auto", "24GiB". Throws a usage error where there is no option of that name.
std::string option_text(const Options& options, std::string_view key);

}  // namespace snug
