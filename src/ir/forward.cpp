#include "ir/forward.h"

#include "ir/builder.h"

namespace snug {

Forward add_forward(Module& module, const ForwardBuilder& forward, ProgramRole role) {
  const std::string name = Builder(module, role).program().name;
  return forward(module, name, is_training(role));
}

}  // namespace snug
