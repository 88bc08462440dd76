// Types follow from infer: what passes use after they changed an input's type or an attribute.
#pragma once

#include "ir/op_def.h"

namespace snug {

// Sets the types of what `op` makes to what its infer says now.
inline void retype_outputs(Module& module, const Op& op) {
  const auto inputs = input_types(module, op);
  const auto types = op.def->infer(OpView{*op.def, op.name, op.layer, inputs, op.attrs});
  for (size_t i = 0; i < types.size(); ++i) module[op.outputs[i]].type = types[i];
}

}  // namespace snug
