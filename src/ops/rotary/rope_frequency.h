// How far each pair of a head turns per position: plain, linear and llama3 scaling, in double.
#pragma once

#include "ir/attrs.h"

namespace snug::ops {

// R, the elements of a head that turn.
int64_t rotary_dim(const Attrs& attrs);

// Of pair i, from the attributes of a rope op.
double rope_frequency(int64_t i, const Attrs& attrs);

}  // namespace snug::ops
