// Which forward values a recompute policy keeps for the backward pass.
//
//   recompute(module, "micro_first", values_to_keep(module, "micro_first", policy));
#pragma once

#include <string_view>
#include <vector>

#include "ir/program.h"
#include "techniques/recompute/settings.h"

namespace snug {

// By value id: is it kept from forward to backward? Throws a usage error where the policy names a layer
// that is not there, or drops what none of a segment's layers makes.
std::vector<bool> values_to_keep(const Module& module, std::string_view program,
                                 const RecomputePolicy& policy);

}  // namespace snug
