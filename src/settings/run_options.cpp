// Options that say for which device and inside which limits a run is planned.
#include "settings/option_rows.h"

namespace snug {

std::vector<Option> run_options() {
  return {
      option_row("dropout", &Options::dropout,
                 "probability for every dropout of the model (negative: as its configuration says)",
                 {.verbs = Verbs::runs | Verbs::doctor}),
      option_row("pack", &Options::pack,
                 "several samples in a row, without attention between them; positions restart",
                 {.verbs = Verbs::runs | Verbs::eval}),
      option_row(
          "budget", &Options::budget,
          "memory to stay inside, e.g. 24GiB: what is left open is chosen to be fastest within it "
          "(on "
          "a GPU all that nvidia-smi shows; not given: what is free there, on a CPU no limit)",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::sample | Verbs::doctor,
           .on_resume = OnResume::limit}),
      option_row(
          "host-budget", &Options::host_budget,
          "host memory that a plan may use in addition to the device's (training: what is free, "
          "less a reserve)",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::sample, .on_resume = OnResume::limit}),
      option_row(
          "disk-budget", &Options::disk_budget, "bytes on disk that a plan may use",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::sample, .on_resume = OnResume::limit}),
      option_row(
          "allow", &Options::allow,
          "what the search may change to fit or to be faster, although results change: optimizer, "
          "precision, compress, base, or all"),
      option_row("explain", &Options::explain,
                 "plan: what else was considered and why it was not chosen; train: predicted and "
                 "measured",
                 {.on_resume = OnResume::free}),
      option_row(
          "gpu", &Options::gpu,
          "a GPU to plan for, e.g. rtx4090 or g6.xlarge (snug gpus lists them): its speed, and its "
          "memory where there is no --budget",
          {.verbs = Verbs::runs | Verbs::doctor}),
      option_row("device", &Options::device,
                 "auto | cpu | cuda | null (auto: cuda where a GPU answers, else cpu; null follows "
                 "every byte "
                 "and computes nothing)",
                 {.verbs = Verbs::runs | Verbs::eval | Verbs::sample | Verbs::doctor,
                  .on_resume = OnResume::limit,
                  .settled = true}),
      option_row("threads", &Options::threads,
                 "CPU threads of a rank (0: all, shared by the ranks of --ranks)",
                 {.verbs = Verbs::train | Verbs::eval | Verbs::sample,
                  .on_resume = OnResume::free,
                  .of_host = true}),
      option_row("deterministic", &Options::deterministic,
                 "the same bits from every run: algorithms are chosen by rule, not by timing",
                 {.verbs = Verbs::runs | Verbs::eval | Verbs::sample}),
      option_row(
          "tune", &Options::tune,
          "auto | short | long: how a GPU's matmuls are timed before the first step (long: about a "
          "minute, then cached; auto: long where training takes half an hour)",
          {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("seed", &Options::seed, "of initial weights, shuffling and dropout",
                 {.verbs = Verbs::runs | Verbs::eval | Verbs::sample}),
      option_row(
          "json", &Options::json, "results as JSON on stdout",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::sample, .on_resume = OnResume::free})};
}

}  // namespace snug
