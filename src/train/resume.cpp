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
#include "report/layout.h"
#include "train/model_directory.h"
#include "train/run_directory.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// How a step is computed, to the same bits: chosen anew where one of these, or a limit, is given.
constexpr std::array<std::string_view, 5> kExact{"recompute", "offload", "offload-ahead",
                                                 "fold-update", "host-update"};
constexpr std::array<std::string_view, 5> kLimits{"budget", "host-budget", "disk-budget", "device",
                                                  "offload-dir"};
// What is done beside the steps.
constexpr std::array<std::string_view, 22> kBeside{
    "json",       "out",        "threads",      "explain",    "tune",      "data",
    "eval-data",  "eval-every", "eval-batches", "save-every", "save-sync", "keep",
    "keep-every", "overwrite",  "on-nan",       "grace",      "resume",    "resume-changed",
    "new-data",   "cache",      "log-ranks",    "share-gpu"};

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> given_in(const Options& asked) {
  if (!asked.given.empty()) return asked.given;
  const Json now = options_json(asked), plain = options_json(Options{});
  std::vector<std::string> given;
  for (const auto& [key, value] : now.items())
    if (value != plain.at(key)) given.push_back(key);
  return given;
}

// Recompute rounds other values where they are compressed.
bool is_exact(std::string_view name, const Options& settled) {
  return is_one_of(kExact, name) && (name != "recompute" || settled.compress == "none");
}

// Does the run do as many steps as it is told at the same rates?
bool steps_are_free(const Options& settled) { return settled.lr_schedule == "constant"; }

}  // namespace

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
  const Options& settled = run.manifest.settled;
  const Json wanted = options_json(asked), first = options_json(run.manifest.asked);
  Json options = options_json(settled);
  const std::vector<std::string> given = given_in(asked);
  const bool anew = std::ranges::any_of(given, [&](std::string_view name) {
    return is_exact(name, settled) || is_one_of(kLimits, name);
  });
  for (const std::string_view name : kExact)
    if (anew && is_exact(name, settled)) options[name] = first.at(std::string(name));
  options["device"] = first.at("device");
  std::vector<std::string> changes;
  for (const std::string& name : given) {
    const Json& value = wanted.at(name);
    const bool same = value == options.at(name) || value == first.at(name);
    const bool free = is_exact(name, settled) || is_one_of(kLimits, name) ||
                      is_one_of(kBeside, name) || (name == "steps" && steps_are_free(settled));
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
  run.options.given = asked.given;
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
