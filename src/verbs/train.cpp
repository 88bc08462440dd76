// `snug train`: check everything, plan, refuse what does not fit, allocate once, then step,
// evaluate and save.

#include <algorithm>
#include <optional>

#include "base/checksum.h"
#include "base/error.h"
#include "base/units.h"
#include "formats/peft_config.h"
#include "hal/cpu/cpu_device.h"
#include "hal/disk_file.h"
#include "ir/verifier.h"
#include "kernels/cpu/gemm.h"
#include "recipe/option_checks.h"
#include "runtime/null_executor.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/model_directory.h"
#include "train/open_device.h"
#include "train/output_directory.h"
#include "train/resume.h"
#include "train/run_directory.h"
#include "train/run_records.h"
#include "train/run_saver.h"
#include "train/run_state.h"
#include "train/step_profiler.h"
#include "train/trained_output.h"
#include "verbs/here.h"
#include "verbs/host_budget.h"
#include "verbs/plan.h"
#include "verbs/ranks.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

void say(const TrainObserver& observer, const std::string& line) {
  if (observer.said) observer.said(line);
}

// What would be passed over in silence, or mean something else than was asked.
void check_data_options(const Options& o) {
  if (o.holdout > 0 && !o.eval_data.empty()) {
    throw usage_error("--holdout {} and --eval-data {}: held-out data comes from one of them",
                      o.holdout, o.eval_data)
        .hint("leave one of them out");
  }
  if (o.eval_every > 0 && o.holdout == 0 && o.eval_data.empty()) {
    throw usage_error("--eval-every {}, but there is no held-out data", o.eval_every)
        .hint("give --holdout 0.05 or --eval-data");
  }
}

// Random weights for want of readable ones, and random data for want of any, are never meant.
void check_origin_of_weights(const Resolved& run) {
  if (run.asked.init == "auto" && run.options.init == "scratch" && !run.model.source_dir().empty())
    refuse_other_weights(run.model.source_dir());
  if (run.options.init == "load" && run.asked.data == "auto") {
    throw usage_error("{} has weights, and no --data says what to train them on", run.options.model)
        .hint("give --data, or --data synthetic for random tokens");
  }
}

// To what is free where it is; refuses where nothing says that.
void limit_disk(Resolved& run) {
  if (run.options.device == "null") return;
  const std::string& dir = run.options.offload_dir;
  if (run.recipe.offload.uses(Space::disk) && dir.empty()) {
    throw usage_error("--offload {} puts values on disk, and nothing says where that is",
                      run.options.offload)
        .hint("give --offload-dir DIR, a directory on a local disk");
  }
  if (!dir.empty())
    run.disk_budget = std::min(run.disk_budget.value_or(kUnlimited), free_disk_bytes(dir));
}

void check_saving(const Options& o) {
  require_at_least(0, o.profile, "profile");
  require_at_least(0, o.log_every, "log-every");
  require_writable(o.profile_dir, "profile-dir");
  require_writable(o.tensorboard, "tensorboard");
  parse_save_interval(o.save_every);
  if (!o.grace.empty() && !parse_seconds(o.grace))
    throw usage_error("--grace '{}' is not a time", o.grace).hint("for example --grace 30s");
  require_at_least(1, o.keep, "keep");
  require_at_least(0, o.keep_every, "keep-every");
  if (parse_on_nan(o.on_nan).action != OnNan::Action::rollback) return;
  if (!o.out.empty() && !o.save_every.empty()) return;
  throw usage_error("--on-nan {}, and there would be no checkpoint to go back to", o.on_nan)
      .hint("give --out DIR and --save-every, too");
}

// A directory that holds something is not written to by mistake.
void refuse_used(const Options& o, const Resumed* resumed) {
  std::error_code ignored;
  const fs::path out = o.out;
  if (o.overwrite || (resumed && fs::equivalent(resumed->checkpoint.parent_path(), out, ignored)))
    return;
  if (!checkpoints_in(out).empty() || fs::exists(out / kLatestFile, ignored)) {
    throw usage_error("--out {} is the directory of another run", o.out)
        .hint(fmt::format("--resume {} goes on with that run; --overwrite begins a new one, and "
                          "the old one stays until the first new save is complete",
                          o.out));
  }
  for (const auto& [file, what] :
       {std::pair{kConfigFile, "a model"}, std::pair{kAdapterConfigFile, "an adapter"}}) {
    if (!fs::exists(out / file, ignored)) continue;
    throw usage_error("--out {} holds {}", o.out, what)
        .hint("--overwrite replaces it when the new one is complete; or give another directory");
  }
}

// Those that are kept, and the one that is being written.
int64_t checkpoint_bytes(const Resolved& run, const Module& module) {
  const Options& o = run.options;
  const SaveInterval interval = parse_save_interval(o.save_every);
  const int64_t saves = interval.steps > 0     ? o.steps / interval.steps + 1
                        : interval.seconds > 0 ? o.keep + 1
                                               : 1;
  return checked_mul(run_state_of_ranks_bytes(module), std::min(saves, o.keep + 1), "checkpoints");
}

void require_room_to_save(const OutputDirectory& out, const Resolved& run, const Module& module) {
  const Part part = trained_part(run.recipe);
  if (part == Part::adapter) {
    require_replaceable(out.path(),
                        adapter_config_json(module, run.recipe.adapters, base_name(run)),
                        /*in_shards=*/false, Part::adapter);
  } else {
    require_replaceable(out.path(), run.model.config_json(saved_dtype(run.recipe)),
                        saved_bytes(module) > kMaxShardBytes);
  }
  out.require_space(saved_bytes(module, part) + checkpoint_bytes(run, module));
}

// Ranks have the same program, and read the same data.
void require_same_plan(Job& job, const PlannedRun& planned, const Samples& samples) {
  const DataFingerprint data = samples.fingerprint();
  job.require_alike("data", fmt::format("{} tokens, checksum {}", data.tokens, data.checksum));
  job.require_alike("plan", to_toml(planned.run, planned.recompute));
  // Then no rank waits in vain for another of its stage.
  const std::string mine =
      fmt::format("arena of {} bytes\n{}", format_exact(arena_of(planned.plan)),
                  collectives_text(planned.plan.module));
  if (planned.run.recipe.mesh.pp == 1) return job.require_alike("collectives", mine);
  const std::vector<std::string> all = job.exchange(checksum_text(mine));
  const size_t stage = all.size() / static_cast<size_t>(planned.run.recipe.mesh.pp);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all[rank / stage * stage])
      throw internal_error("ranks {} and {} of one stage have other programs", rank / stage * stage,
                           rank);
  }
}

int gpu_of(const Options& options, const Job& job) {
  return options.share_gpu ? 0 : job.local_rank();
}

// Ranks have the same plan: the least that one of them has is there for all, and those that share a
// machine or a GPU share what is free.
Resolved resolve_as_rank(const Options& options, Job& job) {
  const auto least = [&](int64_t mine, bool shared) {
    const std::vector<int64_t> all = job.gather(shared ? mine / job.local_ranks() : mine);
    return *std::ranges::min_element(all);
  };
  std::optional<int64_t> free = free_budget(options, gpu_of(options, job));
  if (free) free = least(*free, options.share_gpu);
  Resolved run = resolve(options, free);
  if (!run.host_budget && run.options.device != "null")
    run.host_budget = least(host_budget_of(available_memory_bytes()), /*shared=*/true);
  return run;
}

// As a rank of `job`, or alone where it is nullptr.
TrainReport train_rank(const Options& options, const TrainObserver& observer, Job* job) {
  std::optional<Resumed> resumed;
  if (!options.resume.empty()) resumed = resume(options);
  if (job != nullptr && resumed) {
    const RunManifest& from = resumed->manifest;
    job->require_alike("checkpoint", fmt::format("step {} of run {}, manifest {}", from.step,
                                                 from.run, checksum_text(manifest_text(from))));
  }
  const Options& wanted = resumed ? resumed->options : options;
  Resolved asked = job != nullptr ? resolve_as_rank(wanted, *job) : resolve_here(wanted);
  check_saving(asked.options);
  limit_host(asked);
  limit_disk(asked);
  if (asked.options.threads > 0) ops::use_threads(asked.options.threads);
  if (const std::string note = asked.model.sequence_note(asked.build.seq); !note.empty())
    say(observer, note);
  check_data_options(asked.options);
  check_origin_of_weights(asked);
  std::optional<OutputDirectory> out;
  if (!asked.options.out.empty() && (job == nullptr || job->rank() == 0)) {
    refuse_used(asked.options, resumed ? &*resumed : nullptr);
    out.emplace(asked.options.out);
  }

  if (observer.doing) observer.doing("planning");
  PlannedRun planned = plan_run(asked);
  leave_arena_to_cpu(planned);
  const Plan& plan = planned.plan;
  const Resolved& run = planned.run;
  const std::unique_ptr<Device> device =
      open_device(run, job == nullptr ? 0 : gpu_of(run.options, *job));
  Samples samples = Samples::for_training(run);
  if (resumed) require_same_data(*resumed, samples.fingerprint());
  require_fit(planned);
  std::unique_ptr<CheckpointReader> weights, adapter;
  if (run.options.init == "load") {
    weights = std::make_unique<CheckpointReader>(run.model.source_dir());
    check_weights(plan.module, *weights, spellings_of(run), Part::model, has_more(run.recipe.mesh));
  }
  if (!run.options.adapter.empty()) {
    adapter =
        std::make_unique<CheckpointReader>(fs::path(run.options.adapter) / kAdapterWeightsFile);
    check_weights(plan.module, *adapter, {}, Part::adapter, has_more(run.recipe.mesh));
  }
  if (out) require_room_to_save(*out, run, plan.module);
  if (observer.planned) observer.planned(report_of(planned, Advise::never, false));
  say(observer, fmt::format("data: {}", samples.text()));
  if (job != nullptr) require_same_plan(*job, planned, samples);

  if (!device) {
    const NullRun followed = run_null(plan.module);
    say(observer, fmt::format("null device: followed {} ops over {} bytes; nothing was computed",
                              format_exact(followed.ops), format_exact(followed.high_water[0])));
    TrainReport report;
    if (run.options.profile > 0) report.profile = predicted_profile(planned);
    return report;
  }
  const Origin origin{
      .weights = weights.get(), .adapter = adapter.get(), .resumed = resumed ? &*resumed : nullptr};
  if (job == nullptr) return run_training(planned, observer, samples, *device, origin);
  JobLinks links(*job, device->kind(), run.recipe.mesh, run.recipe.sharding);
  if (run.recipe.mesh.pp > 1) links.open_groups(plan.module);
  return run_training(planned, observer, samples, *device, origin, &links);
}

}  // namespace

TrainReport train(const Options& options, const TrainObserver& observer) {
  const std::unique_ptr<Job> job = join_job(options);
  if (!job) return train_rank(options, observer, nullptr);
  return job->run([&] {
    require_same_run(*job, options);
    Options mine = options;
    mine.ranks = job->ranks();
    mine.rank = job->rank();
    mine.cores = cores_of_a_rank(*job);
    return train_rank(mine, observer, job.get());
  });
}

}  // namespace snug
