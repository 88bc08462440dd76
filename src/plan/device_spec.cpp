#include "plan/device_spec.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"

namespace snug {
namespace {

constexpr int64_t MiB = int64_t{1} << 20;
constexpr double T = 1e12;  // operations
constexpr double G = 1e9;   // bytes

// name, title, memory, then fp32 tf32 bf16 fp16 (dense, fp32 accumulation), memory, host link
const std::array kCatalogue{
    DeviceSpec{"h200", "NVIDIA H200", Backend::cuda, 143771 * MiB, 67 * T, 495 * T, 989 * T,
               989 * T, 4800 * G, 55 * G},
    DeviceSpec{"h100", "NVIDIA H100 80GB HBM3", Backend::cuda, 81559 * MiB, 67 * T, 495 * T,
               989 * T, 989 * T, 3350 * G, 55 * G},
    DeviceSpec{"a100-80", "NVIDIA A100-SXM4-80GB", Backend::cuda, 81920 * MiB, 19.5 * T, 156 * T,
               312 * T, 312 * T, 2039 * G, 25 * G},
    DeviceSpec{"a100-40", "NVIDIA A100-SXM4-40GB", Backend::cuda, 40960 * MiB, 19.5 * T, 156 * T,
               312 * T, 312 * T, 1555 * G, 25 * G},
    DeviceSpec{"l40s", "NVIDIA L40S", Backend::cuda, 46068 * MiB, 91.6 * T, 183 * T, 362 * T,
               362 * T, 864 * G, 25 * G},
    DeviceSpec{"rtx5090", "NVIDIA GeForce RTX 5090", Backend::cuda, 32607 * MiB, 104.8 * T,
               104.8 * T, 209.5 * T, 209.5 * T, 1792 * G, 50 * G},
    DeviceSpec{"rtx4090", "NVIDIA GeForce RTX 4090", Backend::cuda, 24564 * MiB, 82.6 * T, 82.6 * T,
               165.2 * T, 165.2 * T, 1008 * G, 25 * G},
    DeviceSpec{"rtx3090", "NVIDIA GeForce RTX 3090", Backend::cuda, 24576 * MiB, 35.6 * T, 35.6 * T,
               71 * T, 71 * T, 936 * G, 25 * G},
    DeviceSpec{"v100", "Tesla V100-SXM2-32GB", Backend::cuda, 32768 * MiB, 15.7 * T, 0, 0, 125 * T,
               900 * G, 12 * G},
};

// Lower case, letters and digits only.
std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

double DeviceSpec::peak_flops(Dtype dtype, const Math& math) const {
  if (dtype == Dtype::bf16 && bf16_flops > 0) return bf16_flops;
  if (dtype == Dtype::f16 && fp16_flops > 0) return fp16_flops;
  return math.tf32 && tf32_flops > 0 ? tf32_flops : fp32_flops;
}

std::span<const DeviceSpec> device_catalogue() { return kCatalogue; }

DeviceSpec this_cpu(int64_t threads) {
  const auto n = static_cast<double>(std::max<int64_t>(threads, 1));
  const double flops = 60 * G * n;
  return {"cpu", "this CPU", Backend::cpu, 0, flops, flops, flops, flops, 10 * G * std::min(n, 8.0),
          0};
}

const DeviceSpec* match_device(std::string_view title) {
  const std::string wanted = squeezed(title);
  for (const DeviceSpec& spec : kCatalogue)
    if (squeezed(spec.name) == wanted || squeezed(spec.title) == wanted) return &spec;
  return nullptr;
}

const DeviceSpec& find_device(std::string_view name) {
  if (const DeviceSpec* spec = match_device(name)) return *spec;
  std::vector<std::string> names;
  for (const DeviceSpec& spec : kCatalogue) names.push_back(spec.name);
  throw usage_error("--gpu '{}' is not in the catalogue{}", name,
                    did_you_mean(std::string(name), names))
      .hint(fmt::format("known: {}", fmt::join(names, ", ")));
}

}  // namespace snug
