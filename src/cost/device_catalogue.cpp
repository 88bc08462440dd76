#include "cost/device_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

#include "base/text.h"

namespace snug {
namespace {

constexpr int64_t MiB = int64_t{1} << 20;
constexpr double T = 1e12;  // operations
constexpr double G = 1e9;   // bytes

// name, title, memory, then fp32 tf32 bf16 fp16 (dense, fp32 accumulation), memory, host link. Of
// data sheets and white papers: boost clocks, without sparsity; GeForce cards accumulate in fp32 at
// half rate.
const std::array kCatalogue{
    DeviceSpec{"h200", "NVIDIA H200", Backend::cuda, 143771 * MiB, 67 * T, 495 * T, 989 * T,
               989 * T, 4800 * G, 55 * G},
    DeviceSpec{"h100", "NVIDIA H100 80GB HBM3", Backend::cuda, 81559 * MiB, 67 * T, 495 * T,
               989 * T, 989 * T, 3350 * G, 55 * G},
    DeviceSpec{"h100-nvl", "NVIDIA H100 NVL", Backend::cuda, 95830 * MiB, 60 * T, 417 * T, 835 * T,
               835 * T, 3938 * G, 55 * G},
    DeviceSpec{"h100-pcie", "NVIDIA H100 PCIe", Backend::cuda, 81559 * MiB, 51 * T, 378 * T,
               756 * T, 756 * T, 2039 * G, 55 * G},
    DeviceSpec{"a100-80", "NVIDIA A100-SXM4-80GB", Backend::cuda, 81920 * MiB, 19.5 * T, 156 * T,
               312 * T, 312 * T, 2039 * G, 25 * G},
    DeviceSpec{"a100-80-pcie", "NVIDIA A100 80GB PCIe", Backend::cuda, 81920 * MiB, 19.5 * T,
               156 * T, 312 * T, 312 * T, 1935 * G, 25 * G},
    DeviceSpec{"a100-40", "NVIDIA A100-SXM4-40GB", Backend::cuda, 40960 * MiB, 19.5 * T, 156 * T,
               312 * T, 312 * T, 1555 * G, 25 * G},
    DeviceSpec{"l40s", "NVIDIA L40S", Backend::cuda, 46068 * MiB, 91.6 * T, 183 * T, 362 * T,
               362 * T, 864 * G, 25 * G},
    DeviceSpec{"l4", "NVIDIA L4", Backend::cuda, 23034 * MiB, 30.3 * T, 60 * T, 121 * T, 121 * T,
               300 * G, 25 * G},
    DeviceSpec{"a10", "NVIDIA A10", Backend::cuda, 23028 * MiB, 31.2 * T, 62.5 * T, 125 * T,
               125 * T, 600 * G, 25 * G},
    DeviceSpec{"a6000", "NVIDIA RTX A6000", Backend::cuda, 49140 * MiB, 38.7 * T, 77.4 * T,
               154.8 * T, 154.8 * T, 768 * G, 25 * G},
    DeviceSpec{"rtx5090", "NVIDIA GeForce RTX 5090", Backend::cuda, 32607 * MiB, 104.8 * T,
               104.8 * T, 209.5 * T, 209.5 * T, 1792 * G, 50 * G},
    DeviceSpec{"rtx4090", "NVIDIA GeForce RTX 4090", Backend::cuda, 24564 * MiB, 82.6 * T, 82.6 * T,
               165.2 * T, 165.2 * T, 1008 * G, 25 * G},
    DeviceSpec{"rtx3090", "NVIDIA GeForce RTX 3090", Backend::cuda, 24576 * MiB, 35.6 * T, 35.6 * T,
               71 * T, 71 * T, 936 * G, 25 * G},
    DeviceSpec{"v100-32", "Tesla V100-SXM2-32GB", Backend::cuda, 32768 * MiB, 15.7 * T, 0, 0,
               125 * T, 900 * G, 12 * G},
    DeviceSpec{"v100-16", "Tesla V100-SXM2-16GB", Backend::cuda, 16384 * MiB, 15.7 * T, 0, 0,
               125 * T, 900 * G, 12 * G},
};

// CUDA offers less than nvidia-smi's total: by 614 MiB on an H200 (measured), and, by what
// out-of-memory messages say of others, 551 of an H100's, up to 770 of an A100-80's, 390 of an RTX
// 4090's and 320 of an RTX 3090's. A rule that holds for all of them.
constexpr double kKeptBack = 0.02;
constexpr int64_t kMostKeptBack = 832 * MiB;

// Words that make another device of a title: a slower chip, or a part of one.
constexpr std::array<std::string_view, 5> kOthers{"laptop", "mobile", "d", "ti", "mig"};

// Lower case, letters and digits only.
std::string squeezed(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// The words of a title, and neighbours as one: "rtx", "4090", "rtx4090".
std::vector<std::string> words_of(std::string_view title) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(title) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(squeezed(std::exchange(word, {})));
    }
  }
  for (size_t i = 0, n = words.size(); i + 1 < n; ++i) words.push_back(words[i] + words[i + 1]);
  return words;
}

// How many parts an entry's name has, where the title has them all ("a100-40": A100 and 40GB), else
// none.
size_t shared_parts(const DeviceSpec& spec, std::span<const std::string> title) {
  const std::vector<std::string> parts = split(spec.name, '-');
  const bool all = std::ranges::all_of(parts, [&](const std::string& part) {
    return std::ranges::any_of(
        title, [&](const std::string& word) { return word == part || word == part + "gb"; });
  });
  return all ? parts.size() : 0;
}

}  // namespace

int64_t DeviceSpec::usable_bytes() const {
  const auto part = static_cast<int64_t>(kKeptBack * static_cast<double>(memory_bytes));
  return memory_bytes - std::min(part, kMostKeptBack);
}

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

  const std::vector<std::string> words = words_of(title);
  for (const std::string_view other : kOthers)
    if (std::ranges::find(words, other) != words.end()) return nullptr;
  const DeviceSpec* best = nullptr;
  size_t most = 0;
  for (const DeviceSpec& spec : kCatalogue) {
    const size_t parts = shared_parts(spec, words);
    if (parts > most) best = &spec;
    most = std::max(most, parts);
  }
  return best;
}

const DeviceSpec& find_device(std::string_view name) {
  if (const DeviceSpec* spec = match_device(name)) return *spec;
  std::vector<std::string> names, sizes;
  for (const DeviceSpec& spec : kCatalogue) {
    names.push_back(spec.name);
    if (squeezed(spec.name).starts_with(squeezed(name))) sizes.push_back(spec.name);
  }
  throw usage_error("--gpu '{}' is not in the catalogue{}", name,
                    sizes.size() > 1
                        ? fmt::format(" - did you mean '{}'?", fmt::join(sizes, "' or '"))
                        : did_you_mean(squeezed(name), names))
      .hint(fmt::format("known: {}", fmt::join(names, ", ")));
}

}  // namespace snug
