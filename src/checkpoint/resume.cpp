#include "checkpoint/resume.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/run_state.h"
#include "models/model.h"
#include "recipe/resolve.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// How --resume treats this option. Recompute rounds other values where they are compressed.
OnResume may_do(const Option& option, const Options& settled) {
  const bool rounds =
      &option == &option_of(&Options::recompute) && settled.compress != CompressKind::none;
  return rounds ? OnResume::refuses : option.on_resume;
}

// Does the run do as many steps as it is told at the same rates?
bool steps_are_free(const Options& settled) {
  return settled.lr_schedule == LrSchedule::Kind::constant;
}

// Manifests from before there were ranks do not say.
int64_t ranks_before(const RunManifest& manifest) {
  return std::max<int64_t>(manifest.settled.ranks, 1);
}

bool is_in(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// The options that are given now, without MODEL.
std::vector<const Option*> options_in(const std::vector<std::string>& names) {
  std::vector<const Option*> options;
  for (const std::string& name : names)
    if (const Option* option = find_option(name)) options.push_back(option);
  return options;
}

// Settles options that follow from the mesh. Left open, a search under a budget would take other
// micro-batches, and sum in another order.
void settle_mesh(Options& o, bool stage_is_given) {
  const int64_t readers = mesh_of(o).dp;
  if (o.global_batch > 0 && o.accum == 0)
    o.accum =
        micro_batches_of(o.global_batch, checked_mul(o.batch, readers, "sequences of all ranks"));
  if (stage_is_given || readers > 1) return;
  o.zero = {};  // ZeRO needs at least two data-parallel ranks
  o.shard = {};
}

}  // namespace

std::vector<std::string> given_in(const Options& asked) {
  if (!asked.given.empty()) return asked.given;
  const Options plain;
  std::vector<std::string> given;
  if (asked.model != plain.model) given.emplace_back("model");
  for (const Option& option : all_options())
    if (!option.same(asked, plain)) given.emplace_back(option.key);
  return given;
}

Options on_ranks(Options options, int64_t ranks) {
  if (options.global_batch > 0) options.accum = 0;
  options.ranks = ranks;
  options.tp = options.pp = 0;  // as is said now
  options.mesh = {};
  options.pp_schedule = {};
  if (ranks > 1) return options;
  options.zero = {};
  options.shard = {};
  return options;
}

std::string model_of_run(const RunManifest& manifest, const fs::path& checkpoint) {
  const std::string& name = manifest.settled.model;
  try {
    static_cast<void>(Model::load(name));
    return name;
  } catch (const Error&) {
    return (checkpoint / kConfigFile).string();
  }
}

Resumed resume(const Options& asked) {
  Resumed run{.checkpoint = find_checkpoint(asked.resume)};
  run.manifest = read_manifest(run.checkpoint);
  static_cast<void>(RunStateReader(run.checkpoint, run.manifest));  // its files are there
  const Options& settled = run.manifest.settled;
  const Options& first = run.manifest.asked;
  Options options = settled;
  const std::vector<std::string> names = given_in(asked);
  const std::vector<const Option*> given = options_in(names);
  const int64_t ranks = std::max<int64_t>(asked.ranks, 1), before = ranks_before(run.manifest);
  const Option& ranks_option = option_of(&Options::ranks);
  const auto some_given = [&](const auto& holds) { return std::ranges::any_of(given, holds); };
  const bool meshed = ranks != before || some_given([&](const Option* o) {
                        return o->on_resume == OnResume::mesh && o != &ranks_option;
                      });
  const bool anew = meshed || some_given([&](const Option* o) {
                      const OnResume may = may_do(*o, settled);
                      return may == OnResume::exact || may == OnResume::limit;
                    });
  for (const Option& option : all_options())
    if (anew && may_do(option, settled) == OnResume::exact) option.copy(first, options);
  if (meshed) {
    options = on_ranks(std::move(options), ranks);
    options.micro_order = first.micro_order;
  }
  // Two names of one thing: the one that is given now.
  if (is_in(names, "zero")) options.shard = {};
  if (is_in(names, "shard")) options.zero = {};
  // The host updates what is there: with other values offloaded that is chosen anew.
  if (is_in(names, "offload")) options.host_update = {};
  options.device = first.device;
  std::vector<std::string> changes;
  if (is_in(names, "model") && asked.model != options.model && asked.model != first.model) {
    changes.push_back(fmt::format("MODEL {} (it has {})", asked.model, options.model));
    options.model = asked.model;
  }
  for (const Option* option : given) {
    const bool same = option->same(asked, options) || option->same(asked, first);
    const bool free = may_do(*option, settled) != OnResume::refuses ||
                      (option == &option_of(&Options::steps) && steps_are_free(settled));
    if (!free && same) continue;
    if (!free) {
      changes.push_back(fmt::format("--{} {} (it has {})", option->key, option->text(asked),
                                    option->text(options)));
    }
    option->copy(asked, options);
  }
  if (!changes.empty() && !asked.resume_changed) {
    throw usage_error("--resume {}: {} would change the results of the run", asked.resume,
                      join(changes, ", "))
        .hint("leave it out, or give --resume-changed as well to go on with it");
  }
  run.options = std::move(options);
  if (meshed) settle_mesh(run.options, is_in(names, "zero") || is_in(names, "shard"));
  run.options.given = asked.given;
  if (run.options.model == settled.model)
    run.options.model = model_of_run(run.manifest, run.checkpoint);
  // A checkpoint holds no frozen values.
  const bool has_base = run.options.lora.on();
  run.options.init = has_base ? settled.init : StartFrom::scratch;
  run.options.adapter.clear();
  if (run.options.init == StartFrom::load && !Model::load(run.options.model).has_weights()) {
    throw bad_input("--resume {}: the base model of its adapter, {}, is gone", asked.resume,
                    settled.model)
        .hint("give the directory where it is now as MODEL, with --resume-changed");
  }
  if (asked.out.empty()) run.options.out = fs::absolute(run.checkpoint).parent_path().string();
  if (run.options.steps <= run.manifest.step) {
    throw usage_error("--resume {}: the run is complete, {} of {} steps are done", asked.resume,
                      run.manifest.step, run.options.steps)
        .hint(steps_are_free(settled) ? "give more --steps"
                                      : "more --steps, with --resume-changed: they change the "
                                        "learning rate's schedule");
  }
  return run;
}

Resumed last_checkpoint(const fs::path& directory) {
  Resumed last{.checkpoint = find_checkpoint(directory)};
  last.manifest = read_manifest(last.checkpoint);
  return last;
}

std::vector<std::string> lines_of(const Resumed& run, const Options& now, std::string_view device,
                                  const std::string& read) {
  const RunManifest& then = run.manifest;
  std::vector<std::string> lines{
      fmt::format("resumed: {}, step {} of {}", run.checkpoint.string(), then.step, now.steps)};
  if (now.ranks != ranks_before(then))
    lines[0] += fmt::format(", on {} after {}", counted(now.ranks, "rank"), ranks_before(then));
  if (!read.empty()) lines[0] += ", " + read;
  std::error_code ignored;
  const fs::path directory = run.checkpoint.parent_path();
  if (const int64_t last = last_step_in(directory);
      last > then.step && fs::equivalent(directory, now.out, ignored)) {
    lines.push_back(
        fmt::format("later checkpoints are there, up to step {}: each stays until this run gets to "
                    "its step",
                    last));
  }
  if (device != then.device) {
    lines.push_back(
        fmt::format("it ran on {} before: on {} it goes on within rounding", then.device, device));
  }
  return lines;
}

void require_same_data(const Resumed& run, const DataFingerprint& now) {
  const DataFingerprint& then = run.manifest.data;
  if (now == then || run.options.new_data) return;
  throw bad_input(
      "--resume {}: the data is not what the run was trained on: {} tokens {}, {} tokens {}",
      run.options.resume, format_exact(then.tokens), "then", format_exact(now.tokens),
      then.tokens == now.tokens ? "now, with other content" : "now")
      .hint("give --data PATH where it is now, or --new-data to go on with other data");
}

}  // namespace snug
