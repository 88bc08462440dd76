#include "ir/verifier.h"

#include "ir/verifier_parts.h"

namespace snug {

void verify(const Module& module, Backend backend) {
  const verifying::Facts facts = verifying::check_structure(module);
  verifying::check_writes(facts);
  if (module.level >= Level::step) verifying::check_step(facts, backend);
  if (module.level >= Level::placed) verifying::check_placement(facts);
}

}  // namespace snug
