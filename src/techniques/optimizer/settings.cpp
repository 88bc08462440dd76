#include "techniques/optimizer/settings.h"

#include "settings/option_rows.h"

namespace snug {

std::vector<Option> optimizer_options() {
  return {
      option_row("optimizer", &Options::optimizer, "adamw | adamw8bit | adam-mini | lion | sgd",
                 {.verbs = Verbs::runs | Verbs::doctor, .settled = true}),
      option_row("state-dtype", &Options::state_dtype,
                 "fp32 | bf16: type of the optimizer's moments (bf16 with stochastic rounding)",
                 {.verbs = Verbs::runs | Verbs::doctor, .settled = true}),
      option_row(
          "update-in-backward", &Options::update_in_backward,
          "update each parameter as soon as its gradient is complete, and free the gradient"),
      option_row("fold-update", &Options::fold_update,
                 "auto | on | off: update a layer whose state is offloaded during the next step's "
                 "forward, so that transfers overlap compute (auto: on a GPU, without stages)",
                 {.on_resume = OnResume::exact, .settled = true}),
      option_row("beta1", &Options::beta1, "decay of the first moment"),
      option_row("beta2", &Options::beta2,
                 "decay of the second moment (negative: 0.95, for lion 0.99)", {.settled = true}),
      option_row("eps", &Options::eps, "adamw, adamw8bit, adam-mini: epsilon"),
      option_row("momentum", &Options::momentum, "sgd: momentum (0: none, and no state)"),
      option_row("weight-decay", &Options::weight_decay, "decoupled; not on norms and biases"),
      option_row("clip", &Options::clip, "largest global gradient norm (0: no clipping)")};
}

}  // namespace snug
