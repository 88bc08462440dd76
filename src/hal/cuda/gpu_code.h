// What a GPU has by its compute capability, and whether this binary has code for it: apart from the
// asking, so that every answer can be tried.
//
//   const auto built = architectures_of("80-real/86-real/90");   // as CMake lists them
//   code_for(built, 89) == GpuCode::native;   // 8.6's runs on 8.9
//   code_for(built, 120) == GpuCode::ptx;     // 9.0's PTX is compiled on load
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

// Capabilities are counted as 89 for 8.9.
constexpr int kOldestCapability = 80;  // Ampere

struct GpuFeatures {
  bool supported = false;
  bool tensor_cores = false;    // in bf16 and tf32
  bool fp8 = false;             // ... and fp8
  bool early_launches = false;  // a kernel starts before the one in front of it has ended
  bool clusters = false;        // blocks share their shared memory
};
constexpr GpuFeatures features_of(int capability) {
  return {.supported = capability >= kOldestCapability,
          .tensor_cores = capability >= 80,
          .fp8 = capability >= 89,
          .early_launches = capability >= 90,
          .clusters = capability >= 90};
}

// What the device code of a binary was compiled for.
struct BuiltArchitecture {
  int capability = 0;
  bool native = false, ptx = false;
  bool only_this = false;  // 90a: uses what no other has
  friend bool operator==(const BuiltArchitecture&, const BuiltArchitecture&) = default;
};

// CMake's words: "90" is native code and PTX, "90-real" the first alone, "90-virtual" the second.
inline std::vector<BuiltArchitecture> architectures_of(std::string_view list) {
  std::vector<BuiltArchitecture> all;
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find('/'));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    BuiltArchitecture built{.native = !one.ends_with("-virtual"), .ptx = !one.ends_with("-real")};
    size_t at = 0;
    for (; at < one.size() && one[at] >= '0' && one[at] <= '9'; ++at)
      built.capability = 10 * built.capability + (one[at] - '0');
    built.only_this = at < one.size() && one[at] == 'a';
    if (built.capability > 0) all.push_back(built);
  }
  return all;
}

// PTX is compiled on load, once: it takes a while, and lacks what newer GPUs could do.
enum class GpuCode : uint8_t { none, ptx, native };

// Native code runs on its own generation from its own capability on, PTX on everything newer.
inline GpuCode code_for(const std::vector<BuiltArchitecture>& all, int capability) {
  GpuCode best = GpuCode::none;
  for (const BuiltArchitecture& built : all) {
    const bool same = built.capability == capability;
    const bool newer = built.capability <= capability && !built.only_this;
    const bool generation = built.capability / 10 == capability / 10;
    if (built.native && (same || (newer && generation))) best = GpuCode::native;
    if (built.ptx && (same || newer)) best = std::max(best, GpuCode::ptx);
  }
  return best;
}

}  // namespace snug
