#include "techniques/compress/settings.h"

#include "settings/option_rows.h"

namespace snug {

std::vector<Option> compress_options() {
  return {option_row(
      "compress", &Options::compress,
      "none | int8: how activations are stored between forward and backward (recompute then "
      "changes which of them are rounded)",
      {.settled = true})};
}

}  // namespace snug
