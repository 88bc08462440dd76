// Holds an op's `splits` to what they say: the op is run on parts of its inputs, and the parts
// together are compared with the whole.
#pragma once

#include <set>
#include <string>

#include "ops/testing/op_runner.h"

namespace snug {

// Every axis that the op declares, cut in two uneven parts. `whole` are the op's outputs from
// `values`.
void check_splits(const OpCase& c, const Op& op, const Buffers& values, OpRunner& runner,
                  const Buffers& whole);

// "kind axis" of every declared split that some op of the case is large enough for.
std::set<std::string> splits_cut(const OpCase& c);

}  // namespace snug
