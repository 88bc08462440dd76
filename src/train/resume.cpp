#include "train/resume.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "models/model.h"
#include "passes/adapters.h"
#include "recipe/resolve.h"
#include "report/layout.h"
#include "train/model_directory.h"
#include "train/run_directory.h"
#include "train/run_state.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// How a step is computed, to the same bits: chosen anew where one of these, or a limit, is given.
constexpr std::array<std::string_view, 9> kExact{"recompute",   "offload",        "offload-ahead",
                                                 "fold-update", "host-update",    "zero",
                                                 "shard",       "zero-threshold", "pp-schedule"};
constexpr std::array<std::string_view, 5> kLimits{"budget", "host-budget", "disk-budget", "device",
                                                  "offload-dir"};
// How ranks share the work. Sums over ranks that share matrices are rounded otherwise than one device's.
constexpr std::array<std::string_view, 4> kMesh{"ranks", "mesh", "tp", "pp"};
// What is done beside the steps.
constexpr std::array<std::string_view, 26> kBeside{
    "json",        "out",        "threads",      "explain",    "tune",      "data",
    "eval-data",   "eval-every", "eval-batches", "save-every", "save-sync", "keep",
    "keep-every",  "overwrite",  "on-nan",       "grace",      "resume",    "resume-changed",
    "new-data",    "cache",      "log-ranks",    "share-gpu",  "profile",   "profile-dir",
    "tensorboard", "log-every"};

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Recompute rounds other values where they are compressed.
bool is_exact(std::string_view name, const Options& settled) {
  return is_one_of(kExact, name) && (name != "recompute" || settled.compress == "none");
}

// Does the run do as many steps as it is told at the same rates?
bool steps_are_free(const Options& settled) { return settled.lr_schedule == "constant"; }

// Manifests from before there were ranks do not say.
int64_t ranks_before(const RunManifest& manifest) {
  return std::max<int64_t>(manifest.settled.ranks, 1);
}

bool is_in(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// What follows from the mesh. Left open, a search under a budget would take other micro-batches, and sum
// in another order.
void settle_mesh(Options& o, bool stage_is_given) {
  const int64_t readers = mesh_of(o).dp;
  if (o.global_batch > 0 && o.accum == 0)
    o.accum =
        micro_batches_of(o.global_batch, checked_mul(o.batch, readers, "sequences of all ranks"));
  if (stage_is_given || readers > 1) return;
  o.zero = "auto";  // there is nobody to share with
  o.shard.clear();
}

}  // namespace

std::vector<std::string> given_in(const Options& asked) {
  if (!asked.given.empty()) return asked.given;
  const Json now = options_json(asked), plain = options_json(Options{});
  std::vector<std::string> given;
  for (const auto& [key, value] : now.items())
    if (value != plain.at(key)) given.push_back(key);
  return given;
}

Options on_ranks(Options options, int64_t ranks) {
  if (options.global_batch > 0) options.accum = 0;
  options.ranks = ranks;
  options.tp = options.pp = 0;  // as is said now
  options.mesh.clear();
  options.pp_schedule = "auto";
  if (ranks > 1) return options;
  options.zero = "auto";
  options.shard.clear();
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
  const Json wanted = options_json(asked), first = options_json(run.manifest.asked);
  Json options = options_json(settled);
  const std::vector<std::string> given = given_in(asked);
  const int64_t ranks = std::max<int64_t>(asked.ranks, 1), before = ranks_before(run.manifest);
  const bool meshed = ranks != before || std::ranges::any_of(given, [](std::string_view name) {
                        return is_one_of(kMesh, name) && name != "ranks";
                      });
  const bool anew = meshed || std::ranges::any_of(given, [&](std::string_view name) {
                      return is_exact(name, settled) || is_one_of(kLimits, name);
                    });
  for (const std::string_view name : kExact)
    if (anew && is_exact(name, settled)) options[name] = first.at(std::string(name));
  if (meshed) {
    options = options_json(on_ranks(options_from_json(options), ranks));
    options["micro-order"] = first.at("micro-order");
  }
  // Two names of one thing: the one that is given now.
  if (is_in(given, "zero")) options["shard"] = "";
  if (is_in(given, "shard")) options["zero"] = "auto";
  // The host updates what is there: with other homes that is chosen anew.
  if (is_in(given, "offload")) options["host-update"] = Options{}.host_update;
  options["device"] = first.at("device");
  std::vector<std::string> changes;
  for (const std::string& name : given) {
    const Json& value = wanted.at(name);
    const bool same = value == options.at(name) || value == first.at(name);
    const bool free = is_exact(name, settled) || is_one_of(kLimits, name) ||
                      is_one_of(kBeside, name) || is_one_of(kMesh, name) ||
                      (name == "steps" && steps_are_free(settled));
    if (!free && same) continue;
    if (!free) {
      changes.push_back(fmt::format("{} {} (it has {})", name == "model" ? "MODEL" : "--" + name,
                                    typed_text(value), typed_text(options.at(name))));
    }
    options[name] = value;
  }
  if (!changes.empty() && !asked.resume_changed) {
    throw usage_error("--resume {}: {} would change the results of the run", asked.resume,
                      join(changes, ", "))
        .hint("leave it out, or give --resume-changed as well to go on with it");
  }
  run.options = options_from_json(options);
  if (meshed) settle_mesh(run.options, is_in(given, "zero") || is_in(given, "shard"));
  run.options.given = asked.given;
  run.options.rank = asked.rank;
  run.options.cores = asked.cores;
  if (run.options.model == settled.model)
    run.options.model = model_of_run(run.manifest, run.checkpoint);
  // What is frozen is no part of a checkpoint.
  const bool has_base = parse_adapters(run.options.lora).on();
  run.options.init = has_base ? settled.init : "scratch";
  run.options.adapter.clear();
  if (run.options.init == "load" && !Model::load(run.options.model).has_weights()) {
    throw bad_input("--resume {}: the model that its adapter is beside, {}, is gone", asked.resume,
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
