#include "techniques/base/settings.h"

#include "settings/option_rows.h"

namespace snug {

std::vector<Option> base_options() {
  return {option_row(
      "base-dtype", &Options::base_dtype,
      "auto | nf4 | int8: how the frozen linear layers are stored under --lora, in 4 bits a weight "
      "and a scale for every 64, or in 8 and one for every 128 (auto: as --precision)",
      {.verbs = Verbs::runs | Verbs::eval | Verbs::sample})};
}

}  // namespace snug
