// Runs every check of an op from its samples:
//   values       the kernels against the op's own plain reference in double
//   gradients    the reference backward against finite differences of the reference forward
//   determinism  the same bits from several runs, on any number of threads
//   guards       canaries around every buffer, every output byte written, scratch as declared
//   in place     every granted alias and accumulator gives the same bits as a fresh output
//
//   TEST(RmsNorm, Checks) { check_op(rms_norm_def); }
#pragma once

#include <set>
#include <string>

#include "ir/op_def.h"

namespace snug {

void check_op(const OpDef& def);

// The same with every float array of the samples in bf16, then in f16 (scalars stay as they are),
// and once more with the gradients of parameters in f32.
void check_op_in_halves(const OpDef& def);

// The kinds that check_op(def) runs: the op itself and the backward ops that its samples reach.
std::set<std::string> kinds_reached(const OpDef& def);

}  // namespace snug
