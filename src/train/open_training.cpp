#include "train/open_training.h"

#include <algorithm>

#include "advice/plan_facts.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/units.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/run_saver.h"
#include "checkpoint/run_state.h"
#include "checkpoint/trained_output.h"
#include "formats/peft_config.h"
#include "hal/cpu/cpu_device.h"
#include "hal/disk_file.h"
#include "ir/verifier.h"
#include "machine/here.h"
#include "machine/host_budget.h"
#include "machine/open_device.h"
#include "machine/ranks.h"
#include "settings/option_checks.h"
#include "train/run_records.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// Refuses options that would be ignored, or mean something else than was asked.
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

// Never meant: random weights because none could be read, or random data because none was given.
void check_origin_of_weights(const Resolved& run) {
  if (!run.asked.init && run.options.init == StartFrom::scratch && !run.model.source_dir().empty())
    refuse_other_weights(run.model.source_dir());
  if (run.options.init == StartFrom::load && run.asked.data == "auto") {
    throw usage_error("{} has weights, and no --data says what to train them on", run.options.model)
        .hint("give --data, or --data synthetic for random tokens");
  }
}

// To what is free where it is; refuses where nothing says that.
void limit_disk(Resolved& run) {
  if (run.options.device == DeviceChoice::null) return;
  const std::string& dir = run.options.offload_dir;
  if (run.recipe.offload.uses(Space::disk) && dir.empty()) {
    throw usage_error("--offload {} puts values on disk, and nothing says where that is",
                      print_setting(run.options.offload))
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
  require_at_least(1, o.keep, "keep");
  require_at_least(0, o.keep_every, "keep-every");
  if (o.on_nan.action != OnNan::Action::rollback) return;
  if (!o.out.empty() && !o.save_every.none()) return;
  throw usage_error("--on-nan {}, and there would be no checkpoint to go back to", text(o.on_nan))
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
        .hint(fmt::format("--resume {} continues that run; --overwrite begins a new one, and "
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
  const SaveInterval& interval = o.save_every;
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
  // Then no rank waits for a collective that another rank of its stage does not run.
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
  Resolved run = resolve(options, free, {.rank = job.rank(), .cores = cores_of_a_rank(job)});
  if (!run.host_budget && run.options.device != DeviceChoice::null)
    run.host_budget = least(host_budget_of(available_memory_bytes()), /*shared=*/true);
  return run;
}

}  // namespace

OpenTraining::OpenTraining(const Options& options, const TrainObserver& observer, Job* job) {
  const auto say = [&](const std::string& line) {
    if (observer.said) observer.said(line);
  };
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
  threads.use(asked.options.threads);
  if (const std::string note = asked.model.sequence_note(asked.build.seq); !note.empty()) say(note);
  check_data_options(asked.options);
  check_origin_of_weights(asked);
  if (!asked.options.out.empty() && (job == nullptr || job->rank() == 0)) {
    refuse_used(asked.options, resumed ? &*resumed : nullptr);
    out.emplace(asked.options.out);
  }

  if (observer.doing) observer.doing("planning");
  planned.emplace(plan_run(asked));
  leave_arena_to_cpu(*planned);
  const Plan& plan = planned->plan;
  const Resolved& run = planned->run;
  device = open_device(run, job == nullptr ? 0 : gpu_of(run.options, *job));
  samples.emplace(Samples::for_training(run));
  if (resumed) require_same_data(*resumed, samples->fingerprint());
  require_fit(*planned);
  if (run.options.init == StartFrom::load) {
    weights = std::make_unique<CheckpointReader>(run.model.source_dir());
    check_weights(plan.module, *weights, spellings_of(run), Part::model, has_more(run.recipe.mesh));
  }
  if (!run.options.adapter.empty()) {
    adapter =
        std::make_unique<CheckpointReader>(fs::path(run.options.adapter) / kAdapterWeightsFile);
    check_weights(plan.module, *adapter, {}, Part::adapter, has_more(run.recipe.mesh));
  }
  if (out) require_room_to_save(*out, run, plan.module);
  if (observer.planned) observer.planned(report_of(*planned, Advise::never, false));
  say(fmt::format("data: {}", samples->text()));
  if (job != nullptr) require_same_plan(*job, *planned, *samples);
  if (job == nullptr || !device) return;
  links.emplace(*job, device->kind(), run.recipe.mesh, run.recipe.sharding);
  if (run.recipe.mesh.pp > 1) links->open_groups(plan.module);
}

}  // namespace snug
