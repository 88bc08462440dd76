// Options of the learning rate, and of how long and from where training starts.
#include "settings/option_rows.h"

namespace snug {

std::vector<Option> training_options() {
  return {
      option_row("lr", &Options::lr, "peak learning rate", {.verbs = Verbs::train}),
      option_row("lr-scale", &Options::lr_scale,
                 "none | linear | sqrt: how --lr grows with sequences per step beyond --base-batch",
                 {.verbs = Verbs::train}),
      option_row("base-batch", &Options::base_batch, "sequences per step that --lr was chosen for",
                 {.verbs = Verbs::train}),
      option_row("warmup", &Options::warmup, "optimizer steps of linear warm-up",
                 {.verbs = Verbs::train}),
      option_row("lr-schedule", &Options::lr_schedule, "constant | cosine | linear | wsd",
                 {.verbs = Verbs::train}),
      option_row("min-lr", &Options::min_lr, "where the schedule ends, as a part of --lr",
                 {.verbs = Verbs::train}),
      option_row("steps", &Options::steps, "optimizer steps", {.verbs = Verbs::train}),
      option_row("init", &Options::init,
                 "auto | scratch | load (auto loads when MODEL holds weights)",
                 {.verbs = Verbs::train})};
}

}  // namespace snug
