// Options of what a run keeps: checkpoints, profiles, logs.
#include "settings/option_rows.h"

namespace snug {

std::vector<Option> saving_options() {
  return {
      option_row("out", &Options::out,
                 "directory for the trained model, its checkpoints and the run's configuration",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row(
          "overwrite", &Options::overwrite,
          "--out may hold another run or model, which stays until the first new save is complete",
          {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("save-every", &Options::save_every,
                 "steps (100) or time (10min) between checkpoints in --out; one is written at the "
                 "end in any "
                 "case",
                 {.on_resume = OnResume::free}),
      option_row("save-sync", &Options::save_sync, "training waits while a checkpoint is written",
                 {.on_resume = OnResume::free}),
      option_row("keep", &Options::keep, "checkpoints that are kept, the newest ones",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("keep-every", &Options::keep_every,
                 "and those of every so many steps (0: no others)",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("resume", &Options::resume,
                 "directory of a run, or one of its checkpoints: continues exactly where that was; "
                 "everything else comes from there",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("resume-changed", &Options::resume_changed,
                 "options given with --resume may change the results of the run",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row(
          "on-nan", &Options::on_nan,
          "stop | skip | rollback[:N]: where a loss is not finite, end; leave the update out; or "
          "go "
          "back "
          "to the last checkpoint, N times at most, and leave those samples out (3 if not given)",
          {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("grace", &Options::grace,
                 "time between SIGTERM and the end, e.g. 30s: a run that is stopped saves its "
                 "checkpoint and "
                 "leaves the model to `snug checkpoint --export`",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("profile", &Options::profile,
                 "steps that are measured op by op, after a few that warm up (--profile alone: 3; "
                 "0: none)",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("profile-dir", &Options::profile_dir,
                 "directory for the files of --profile (not given: profile in --out, or none)",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("tensorboard", &Options::tensorboard,
                 "directory for event files that TensorBoard reads",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row(
          "log-every", &Options::log_every,
          "steps between two lines (0: every step, and on a terminal none but a status line)",
          {.verbs = Verbs::train, .on_resume = OnResume::free})};
}

}  // namespace snug
