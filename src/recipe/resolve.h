// From what the user wrote to what passes and models read: every option checked, every default made
// explicit.
#pragma once

#include <filesystem>
#include <optional>

#include "cost/cost_model.h"
#include "cost/step_cost.h"
#include "ir/space_bytes.h"
#include "models/model.h"
#include "settings/change.h"
#include "settings/lr_schedule.h"
#include "settings/rank_here.h"
#include "settings/settings.h"
#include "snug/options.h"

namespace snug {

// A run: its settings, and what they were made from.
struct Resolved : Settings {
  Options options;  // with defaults made explicit: what is printed and saved
  Options asked;    // as they came
  Model model;
  std::optional<int64_t> budget;  // bytes for the arena: --budget without the context
  int64_t context = 0;            // bytes that the device's driver and libraries take in addition
  CostModel cost_model;           // of the device that it is for
  LrSchedule schedule;
  std::optional<int64_t> host_budget, disk_budget = {};  // none: not limited
  RankHere here = {};

  // Is the budget what was free on the GPU, because none was given?
  bool within_free_memory() const {
    return budget.has_value() && !options.budget.given() && options.gpu.empty();
  }
  // On the device, in addition to an arena of a plan with these.
  int64_t context_with(const SpaceBytes& arenas) const {
    return context + (limits().host_is_pinned ? page_table_bytes(arenas[Space::host]) : 0);
  }
  // In host memory, in addition to its arena.
  int64_t host_context() const { return host_context_bytes(recipe.backend); }
  // What arenas may take.
  Limits limits() const {
    return {{{budget.value_or(kUnlimited), left_of(host_budget, host_context()),
              disk_budget.value_or(kUnlimited)}},
            recipe.backend == Backend::cuda};
  }
};

// Throws a usage error that names the option. `free_bytes` of the GPU that it is for are the budget
// where neither --budget nor --gpu gives one.
Resolved resolve(Options options, std::optional<int64_t> free_bytes = {},
                 const RankHere& here = {});
// The same for a model that has no name: options.model is only what it is called.
Resolved resolve(Options options, Model model, std::optional<int64_t> free_bytes = {},
                 const RankHere& here = {});

// The run with some of its options changed: model, device and budget stay. What is asked then is
// what was asked before with the change appended. Throws a usage error where the options
// refuse.
Resolved changed(const Resolved& run, const Change& change);

// What the adapter_config.json of a directory says. Throws bad_input where there is none, or it is
// of a kind that Snug does not do.
Adapters adapters_in(const std::filesystem::path& directory);

// The settings alone. Makes defaults explicit in `options`.
Settings settle(Options& options, const Model& model, std::optional<int64_t> budget,
                int64_t rank = 0);
// The techniques alone, likewise.
Recipe settle_recipe(Options& options, std::optional<int64_t> budget, int64_t rank = 0);
// --device, where auto is a GPU that --gpu names or that answers here, else the CPU.
DeviceChoice device_of(const Options& options, bool gpu_answers);
DeviceChoice device_of(const Options& options);
// For a report's first line: "cpu", "NVIDIA H200" that is here, "rtx4090" that is planned for, "cuda"
// where neither is.
std::string device_text(const Resolved& run);
// What programs are made for: --device null follows those of the CPU.
Backend backend_of(const Options& options);
// How many micro-batches of `batch` make a step of `sequences`. Throws a usage error where the
// numbers are too large to be counted with.
int64_t micro_batches_of(int64_t sequences, int64_t batch);
// As --ranks says, or --gpu h100x8, or --mesh; else one.
int64_t ranks_of(const Options& o);
// As --mesh, --tp and --pp say. Throws a usage error where they contradict each other or the ranks.
struct MeshSizes {
  int64_t pp = 1, dp = 1, tp = 1;
  int64_t ranks() const { return pp * dp * tp; }
};
MeshSizes mesh_of(const Options& o);
// Of them, those that share one copy of the state: N of --shard hybrid:N, else all.
int64_t sharers_of(const Options& o);
// What --lr is multiplied by for the sequences of a step.
double learning_rate_factor(const Options& options);

// The options as they were asked for, with what follows from nothing else made explicit; and with
// all that was chosen, which leaves nothing open.
Options as_asked(const Resolved& run);
Options as_settled(const Resolved& run, const RecomputePolicy& recompute);

// The configuration as a file that --config reads back. What was left to the search, and what
// follows from other options (how many micro-batches make a step, types and scales left to the
// precision), is written as it was asked for, so that another --budget, --batch or --precision
// in addition to the file means what it says. What was chosen, `recompute` among it, follows in a table
// [settled], which --config passes over.
std::string to_toml(const Resolved& run, const RecomputePolicy& recompute);

}  // namespace snug
