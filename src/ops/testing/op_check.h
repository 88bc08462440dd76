// Runs every check of an op from its samples:
//   values       the kernels against the op's own plain reference in double
//   gradients    the reference backward against finite differences of the reference forward
//   determinism  the same bits from several runs, on any number of threads
//   guards       canaries around every buffer, every output byte written, scratch as declared
//   in place     every granted alias and accumulator gives the same bits as a fresh output
//   splits       parts computed apart along every declared axis are the whole
//
//   TEST(RmsNorm, Checks) { check_op(rms_norm_def); }
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ir/op_def.h"
#include "ops/testing/op_runner.h"

namespace snug {

void check_op(const OpDef& def);

// The same with every float array of the samples in bf16, then in f16 (scalars stay as they are),
// and once more with the gradients of parameters in f32.
void check_op_in_halves(const OpDef& def);

// The kinds that check_op(def) runs: the op itself and the backward ops that its samples reach.
std::set<std::string> kinds_reached(const OpDef& def);

// --- the parts, for other backends than the CPU --------------------------------------------------

// The sample with its arrays of f32 in `dtype`.
Sample in_dtype(Sample sample, Dtype dtype);
// The same, where the op takes what is computed from the other inputs in f32 alone.
Sample in_dtype(const OpDef& def, const Sample& sample, Dtype dtype);

// What an op's outputs should be, and what later ops read of them.
struct Expected {
  std::vector<std::vector<double>> outputs;
  Buffers stored;
  double factor = 1;  // of the tolerance: see expect_close
  // By output, where a kernel rounds to the op's own dtype on the way, or to as few bits as
  // `rounded_to` has: so many tolerances of that dtype for a single element, and for the rms of all of
  // them, whatever the output's dtype is.
  struct Rounding {
    double one, all = 2;
  };
  std::map<size_t, Rounding> roundings = {};
  std::optional<Dtype> rounded_to = {};
};
using Oracle = std::function<Expected(const OpCase&, const Op&, const Buffers& values)>;
Expected expect_reference(const OpCase& c, const Op& op, const Buffers& values);
// The CPU's kernel, where the reference would take too long.
Expected expect_cpu_kernel(const OpCase& c, const Op& op, const Buffers& values);

// Values, determinism, guards and in-place runs of every op of the case.
void check_kernels(OpCase c, OpRunner& runner, const Oracle& oracle);
// The same of a sample; in halves also with the gradients of parameters in f32.
void check_sample(const OpDef& def, const Sample& sample, OpRunner& runner,
                  const Oracle& oracle = expect_reference);

}  // namespace snug
