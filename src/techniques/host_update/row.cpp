// Its rows of the technique table, and what the search may choose of it.
#include "techniques/rows.h"

namespace snug {
namespace {

// State comes from the host's memory to a GPU and goes back there.
bool leaves_host_idle(const Settings& s, bool) {
  return s.recipe.backend == Backend::cuda && !s.recipe.host_update.on &&
         keeps_all_on_host(s.recipe);
}

}  // namespace

std::vector<Technique> host_update_rows() {
  return {
      {.name = "update on the host",
       .dimension = "update",
       .change = {{&Options::host_update, HostUpdate{.on = true}}},
       .touches = Touches::arithmetic,
       .numbers = kNothing,
       .helps = leaves_host_idle},
  };
}

}  // namespace snug
