// The rows of the technique table and the dimensions of the search, by the folder that has them;
// techniques.cpp joins them in these orders. Also conditions and words that several rows share.
#pragma once

#include <string_view>
#include <vector>

#include "techniques/technique.h"

namespace snug {

std::vector<Technique> attention_rows();           // techniques/attention/row.cpp
std::vector<Technique> loss_rows();                // techniques/loss/row.cpp
std::vector<Technique> recompute_rows();           // techniques/recompute/row.cpp
std::vector<Technique> precision_rows();           // techniques/precision/row.cpp
std::vector<Technique> compress_rows();            // techniques/compress/row.cpp
std::vector<Technique> base_rows();                // techniques/base/row.cpp
std::vector<Technique> offload_rows();             // techniques/offload/row.cpp
std::vector<Technique> zero_rows();                // techniques/zero/row.cpp
std::vector<Technique> optimizer_rows();           // techniques/optimizer/row.cpp
std::vector<Technique> host_update_rows();         // techniques/host_update/row.cpp
std::vector<Technique> update_in_backward_rows();  // techniques/update_in_backward/row.cpp

DimensionRow attention_dimension();
DimensionRow loss_dimension();
DimensionRow precision_dimension();
DimensionRow optimizer_dimension();
DimensionRow compress_dimension();
DimensionRow base_dimension();
DimensionRow zero_dimension();
DimensionRow offload_dimension();

// --- shared by rows ------------------------------------------------------------------------------

inline bool always(const Settings&, const DeviceSpec&) { return true; }
inline bool on_cpu(const Settings& s, const DeviceSpec&) {
  return s.recipe.backend == Backend::cpu;
}

inline constexpr std::string_view kRounding = "rounding";
inline constexpr std::string_view kNothing = "nothing, bit for bit";

}  // namespace snug
