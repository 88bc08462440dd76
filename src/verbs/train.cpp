// `snug train`: check everything, plan, refuse what does not fit, allocate once, then step,
// evaluate and save.
#include <omp.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/units.h"
#include "runtime/null_executor.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/open_device.h"
#include "verbs/plan.h"

namespace snug {
namespace {

void say(const TrainObserver& observer, const std::string& line) {
  if (observer.said) observer.said(line);
}

// Refuses now what would fail after hours: a directory that cannot be made or written. Tries it in
// the nearest directory that exists, and leaves no trace.
void require_writable(const std::filesystem::path& directory) {
  std::error_code ignored;
  std::filesystem::path at = std::filesystem::absolute(directory, ignored);
  while (!std::filesystem::exists(at, ignored) && at.has_relative_path()) at = at.parent_path();
  if (!std::filesystem::is_directory(at, ignored))
    throw usage_error("--out {}: {} is not a directory", directory.string(), at.string());
  std::string probe = (at / ".snug-XXXXXX").string();
  if (::mkdtemp(probe.data()) == nullptr) {
    throw usage_error("--out {}: cannot write in {}: {}", directory.string(), at.string(),
                      std::strerror(errno));
  }
  std::filesystem::remove(probe, ignored);
}

}  // namespace

TrainReport train(const Options& options, const TrainObserver& observer) {
  const Resolved asked = resolve(options);
  if (asked.options.threads > 0) omp_set_num_threads(static_cast<int>(asked.options.threads));
  if (const std::string note = asked.model.sequence_note(asked.build.seq); !note.empty())
    say(observer, note);
  if (!asked.options.out.empty()) require_writable(asked.options.out);

  const PlannedRun planned = plan_run(asked);
  const Plan& plan = planned.plan;
  const Resolved& run = planned.run;
  const std::unique_ptr<Device> device = open_device(run);
  Samples samples = Samples::for_training(run);
  require_fit(planned);
  std::unique_ptr<CheckpointReader> weights;
  if (run.options.init == "load") {
    weights = std::make_unique<CheckpointReader>(run.model.source_dir());
    check_weights(plan.module, *weights, spellings_of(run));
  }
  if (observer.planned) observer.planned(report_of(planned, Advise::never, false));
  say(observer, fmt::format("data: {}", samples.text()));

  if (!device) {
    const NullRun followed = run_null(plan.module);
    say(observer, fmt::format("null device: followed {} ops over {} bytes; nothing was computed",
                              format_exact(followed.ops), format_exact(followed.high_water[0])));
    return {};
  }
  return run_training(planned, observer, samples, *device, weights.get());
}

}  // namespace snug
