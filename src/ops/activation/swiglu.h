// swiglu: [..., 2F] packed gate|up -> [..., F]: silu(gate) * up; or, with the attribute `gelu`,
// gelu(gate) * up in its tanh form, as Gemma has it.
//
//   ValueId a = swiglu(b, "mlp.act", gate_up);
//   ValueId a = swiglu(b, "mlp.act", gate_up, /*gelu=*/true);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef swiglu_def;       // (gate_up) -> y
extern const OpDef swiglu_grad_def;  // (gate_up, dy) -> dgate_up, which may alias gate_up
// The same, and y once more, for backward ops that read it: (gate_up, dy) -> (dgate_up, y)
extern const OpDef swiglu_recompute_grad_def;

ValueId swiglu(Builder& b, std::string_view name, ValueId gate_up, bool gelu = false);

}  // namespace snug::ops
