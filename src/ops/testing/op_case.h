// A sample as a program, and what the references make of it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/op_def.h"

namespace snug {

// Numbers as `spec` says, rounded to its type; `port` seeds the random ones.
RefTensor make_input(const SampleInput& spec, std::string_view port,
                     std::span<const RefTensor> earlier);

// The sample as a program: inputs, the op, cotangents for its outputs, and the backward ops that
// its `grad` emits.
struct OpCase {
  Module module{.name = "check"};
  std::string sample;               // its name
  std::vector<RefTensor> inputs;    // by op port; values of the module's first ids
  std::vector<ValueId> input_ids;   // by port; none: absent
  std::vector<ValueId> outputs;     // of the forward op
  std::vector<ValueId> cotangents;  // by output; none: not differentiable
  std::vector<ValueId> gradients;   // by input port; none: no gradient
  std::vector<std::pair<ValueId, RefTensor>>
      given;  // everything that exists before the program runs

  const Program& program() const { return module.programs.at(0); }
};
OpCase build_case(const OpDef& def, const Sample& sample);
// The same without numbers: `inputs` and `given` stay empty.
OpCase build_program(const OpDef& def, const Sample& sample);

using RefValues = std::vector<RefTensor>;  // by value id

RefValues start_values(const OpCase& c);
std::vector<RefTensor> reference_results(const OpCase& c, const Op& op, const RefValues& values);

// The first `ops` of the program, rounded nowhere: for differences.
void run_reference(const OpCase& c, RefValues& values, size_t ops);

// As kernels store it: integers to nearest.
RefTensor rounded(RefTensor t);

}  // namespace snug
