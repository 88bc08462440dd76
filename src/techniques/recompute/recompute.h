// --recompute: what forward does not keep for backward is computed again.
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

// Recomputes the forward values that are not kept (by value id) just before their first use in
// backward. Results stay the same bit for bit. graph -> graph.
void recompute(Module& module, std::string_view program, const std::vector<bool>& keep);

// Lets backward ops recompute cheap forward results on the way that forward would otherwise have
// kept (OpDef::fused_recompute). Results stay the same bit for bit. graph -> graph.
void fuse_recompute(Module& module, std::string_view program);

}  // namespace snug
