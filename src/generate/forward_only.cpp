#include "generate/forward_only.h"

#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/trained_output.h"
#include "checkpoint/transfer_progress.h"
#include "formats/peft_config.h"
#include "kernels/cpu/gemm.h"
#include "machine/device_memory.h"
#include "machine/here.h"
#include "machine/open_device.h"
#include "runtime/initialise.h"

namespace snug {
namespace {

// The memory of a GPU that driver and libraries take.
std::string context_words(int64_t context) {
  return context == 0 ? ""
                      : fmt::format(" after {} for driver and libraries", format_bytes(context));
}

std::string changes_that_fit(const PlannedRun& planned, const ForwardAlternatives& alternatives) {
  std::vector<std::string> found;
  std::set<const Option*> options;
  for (const Change& change : alternatives.changes) {
    const Option* option = change.settings().front().option;
    if (options.contains(option)) continue;
    const auto then =
        unless_refused([&] { return alternatives.plan(changed(planned.run, change)); });
    if (then && fits(*then))
      found.push_back(fmt::format("{} ({})", flags_of(change), format_bytes(arena_of(then->plan))));
  }
  if (found.empty()) return "give a larger --budget";
  return "it would fit with " + join(found, ", or ") + "; or give a larger --budget";
}

}  // namespace

Resolved resolve_forward(const Options& options, std::string_view verb) {
  Options o = options;
  o.recompute = RecomputePolicy{};  // there is no backward that could recompute
  Resolved run = resolve_here(o);
  if (run.options.device == DeviceChoice::null) {
    throw usage_error("{} and --device null: the null device computes nothing", verb)
        .hint("leave --device out, or give --device cpu");
  }
  if (!run.model.has_weights()) {
    if (!run.model.source_dir().empty()) refuse_other_weights(run.model.source_dir());
    throw usage_error("'{}' holds no weights, and {} looks at what was learnt", run.options.model,
                      verb)
        .hint("give a directory with weights, for example the --out of `snug train`");
  }
  if (run.options.threads > 0) ops::use_threads(run.options.threads);
  if (run.recipe.adapters.on() && run.options.adapter.empty()) {
    throw usage_error("{} and --lora without --adapter: an untrained adapter adds nothing", verb)
        .hint("give --adapter DIR, which says what it is");
  }
  limit_host(run);
  return run;
}

PlannedRun planned_forward(const Resolved& run, Module compiled) {
  PlannedRun planned{.run = run, .plan = make_plan(std::move(compiled), run.recipe.backend)};
  planned.step_seconds = step_cost(planned.plan.module, run.cost_model).step_seconds;
  leave_arena_to_cpu(planned);
  return planned;
}

bool fits(const PlannedRun& planned) {
  return arenas_of(planned.plan.module).fits_in(planned.run.limits());
}

void require_forward_fit(const PlannedRun& planned, const ForwardAlternatives& alternatives) {
  if (fits(planned)) return;
  const Resolved& run = planned.run;
  const SpaceBytes arenas = arenas_of(planned.plan.module);
  for (const Space space : {Space::host, Space::disk}) {
    if (arenas[space] <= run.limits()[space]) continue;
    throw does_not_fit("{} keeps {} ({} bytes) in the space '{}', and {} are there for it",
                       alternatives.what, format_bytes(arenas[space]), format_exact(arenas[space]),
                       name_of(space), format_bytes(run.limits()[space]))
        .hint("keep more on the device, or use a machine that has so much");
  }
  const int64_t context = run.context_with(arenas);
  const int64_t available = run.budget.value_or(0) + run.context - context;
  const Peak& peak = planned.plan.memory.device().peak;
  throw does_not_fit(
      "{} needs {} ({} bytes) and the budget is {} ({} bytes){}; the peak is in program '{}' "
      "at '{}'",
      alternatives.what, format_bytes(arenas[Space::device]), format_exact(arenas[Space::device]),
      format_bytes(available), format_exact(available), context_words(context), peak.program,
      peak.op)
      .hint(changes_that_fit(planned, alternatives));
}

LoadedModel::LoadedModel(const PlannedRun& planned, const SayLine& doing, const SayLine& said) {
  const Resolved& run = planned.run;
  const Module& module = planned.plan.module;
  const CheckpointReader weights(run.model.source_dir());
  check_weights(module, weights, spellings_of(run));
  std::optional<CheckpointReader> adapter;
  if (run.recipe.adapters.on()) {
    adapter.emplace(std::filesystem::path(run.options.adapter) / kAdapterWeightsFile);
    check_weights(module, *adapter, {}, Part::adapter);
  }
  device_ = open_device(run);
  Math math = run.math;
  math.quick_autotune = true;  // a look takes seconds, and so may timing its matmuls
  executor_ = std::make_unique<Executor>(
      module, *device_, ExecutorOptions{.math = math, .offload_dir = run.options.offload_dir});
  initialise(*executor_, static_cast<uint64_t>(run.options.seed), loaded_values(module));
  TransferProgress progress("reading weights from " + weights.path().string(), saved_bytes(module),
                            doing);
  ValuePieces pieces(*executor_);
  load_model(module, progress.into(pieces), weights, spellings_of(run));
  if (adapter) load_model(module, into(pieces), *adapter, {}, Part::adapter);
  derive(*executor_);
  DeviceMemory(run, *executor_, /*staging=*/0).require_context_within_budget();
  const std::string summary = progress.summary();
  if (said)
    said(fmt::format("weights: loaded from {}{}", weights.path().string(),
                     summary.empty() ? "" : ", " + summary));
  if (said && adapter) said(fmt::format("adapter: loaded from {}", adapter->path().string()));
}

}  // namespace snug
