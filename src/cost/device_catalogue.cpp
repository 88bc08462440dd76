#include "cost/device_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "base/number.h"
#include "base/text.h"

namespace snug {
namespace {

constexpr int64_t MiB = int64_t{1} << 20;
constexpr double T = 1e12;  // operations
constexpr double G = 1e9;   // bytes

// Of data sheets and white papers: boost clocks (laptops': at their highest power), without
// sparsity, accumulation in fp32; cores x clock where a sheet is silent. Titles and mebibytes as
// nvidia-smi shows them.
struct Row {
  const char *name, *title;
  int MiB, capability;
  double fp32, tf32, half;  // TFLOP/s
  double memory, link;      // GB/s: of its memory, and to the host one way
};

// GB/s that pinned copies reach one way, by the link's PCI Express generation and lanes. Measured: 55
// on an H200 (5 x16). Laptops have 8 lanes.
constexpr double k5x16 = 55, k5x8 = 26, k4x16 = 25, k4x8 = 12;
// Of that, what each way reaches while both run: 49 of 55 on that H200.
constexpr double kBothWays = 0.89;

// clang-format off
constexpr Row kProfessional[] = {
    // name              title                         MiB    cc  fp32   tf32   half   GB/s  link
    {"b200",             "NVIDIA B200",               183359, 100, 75,    1125,  2250,  7700, k5x16},
    {"h200",             "NVIDIA H200",                143771, 90, 67,    495,   989,   4800, k5x16},
    {"h200-nvl",         "NVIDIA H200 NVL",            143771, 90, 60,    417,   835,   4800, k5x16},
    {"h100",             "NVIDIA H100 80GB HBM3",      81559,  90, 67,    495,   989,   3350, k5x16},
    {"h100-nvl",         "NVIDIA H100 NVL",            95830,  90, 60,    417,   835,   3938, k5x16},
    {"h100-pcie",        "NVIDIA H100 PCIe",           81559,  90, 51,    378,   756,   2039, k5x16},
    {"a100-80",          "NVIDIA A100-SXM4-80GB",      81920,  80, 19.5,  156,   312,   2039, k4x16},
    {"a100-80-pcie",     "NVIDIA A100 80GB PCIe",      81920,  80, 19.5,  156,   312,   1935, k4x16},
    {"a100-40",          "NVIDIA A100-SXM4-40GB",      40960,  80, 19.5,  156,   312,   1555, k4x16},
    {"a30",              "NVIDIA A30",                 24576,  80, 10.3,  82,    165,   933,  k4x16},
    {"l40s",             "NVIDIA L40S",                46068,  89, 91.6,  183,   362,   864,  k4x16},
    {"l40",              "NVIDIA L40",                 46068,  89, 90.5,  90.5,  181,   864,  k4x16},
    {"l4",               "NVIDIA L4",                  23034,  89, 30.3,  60,    121,   300,  k4x16},
    {"a40",              "NVIDIA A40",                 46068,  86, 37.4,  74.8,  149.7, 696,  k4x16},
    {"a10",              "NVIDIA A10",                 23028,  86, 31.2,  62.5,  125,   600,  k4x16},
    {"a10g",             "NVIDIA A10G",                23028,  86, 31.5,  35,    70,    600,  k4x16},
    {"rtxpro6000",       "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
                                                       97887, 120, 126,   252,   503.8, 1792, k5x16},
    {"rtxpro6000-maxq",  "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
                                                       97887, 120, 110,   219.4, 438.9, 1792, k5x16},
    {"rtxpro6000-server", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                                                       97887, 120, 120,   240,   480,   1597, k5x16},
    {"rtx6000-ada",      "NVIDIA RTX 6000 Ada Generation", 49140, 89, 91.1, 182.1, 364.2, 960, k4x16},
    {"a6000",            "NVIDIA RTX A6000",           49140,  86, 38.7,  77.4,  154.8, 768,  k4x16},
    {"a5000",            "NVIDIA RTX A5000",           24564,  86, 27.8,  55.6,  111.1, 768,  k4x16},
    {"a4000",            "NVIDIA RTX A4000",           16376,  86, 19.2,  38.4,  76.7,  448,  k4x16},
};

// GeForce cards accumulate in fp32 at half rate: tf32 is as fast as fp32, bf16 and fp16 are twice
// as fast.
struct GeForce {
  const char *name, *title;
  int MiB, capability;
  double fp32, memory, link;  // TFLOP/s, GB/s
};
constexpr GeForce kGeForce[] = {
    // name             title                            MiB    cc   fp32   GB/s  link
    {"rtx5090",         "NVIDIA GeForce RTX 5090",        32607, 120, 104.8, 1792, k5x16},
    {"rtx5080",         "NVIDIA GeForce RTX 5080",        16303, 120, 56.3,  960,  k5x16},
    {"rtx5070ti",       "NVIDIA GeForce RTX 5070 Ti",     16303, 120, 43.9,  896,  k5x16},
    {"rtx5070",         "NVIDIA GeForce RTX 5070",        12227, 120, 30.9,  672,  k5x16},
    {"rtx5060ti-8",     "NVIDIA GeForce RTX 5060 Ti",     8151,  120, 23.7,  448,  k5x8},
    {"rtx5060ti-16",    "NVIDIA GeForce RTX 5060 Ti",     16311, 120, 23.7,  448,  k5x8},
    {"rtx5060",         "NVIDIA GeForce RTX 5060",        8151,  120, 19.2,  448,  k5x8},
    {"rtx4090",         "NVIDIA GeForce RTX 4090",        24564, 89,  82.6,  1008, k4x16},
    {"rtx4090d",        "NVIDIA GeForce RTX 4090 D",      24564, 89,  73.5,  1008, k4x16},
    {"rtx4080-super",   "NVIDIA GeForce RTX 4080 SUPER",  16376, 89,  52.2,  736,  k4x16},
    {"rtx4080",         "NVIDIA GeForce RTX 4080",        16376, 89,  48.7,  717,  k4x16},
    {"rtx4070ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER", 16376, 89, 44.1, 672,  k4x16},
    {"rtx4070ti",       "NVIDIA GeForce RTX 4070 Ti",     12282, 89,  40.1,  504,  k4x16},
    {"rtx4070-super",   "NVIDIA GeForce RTX 4070 SUPER",  12282, 89,  35.5,  504,  k4x16},
    {"rtx4070",         "NVIDIA GeForce RTX 4070",        12282, 89,  29.1,  504,  k4x16},
    {"rtx4060ti-8",     "NVIDIA GeForce RTX 4060 Ti",     8188,  89,  22.1,  288,  k4x8},
    {"rtx4060ti-16",    "NVIDIA GeForce RTX 4060 Ti",     16380, 89,  22.1,  288,  k4x8},
    {"rtx4060",         "NVIDIA GeForce RTX 4060",        8188,  89,  15.1,  272,  k4x8},
    {"rtx3090ti",       "NVIDIA GeForce RTX 3090 Ti",     24564, 86,  40,    1008, k4x16},
    {"rtx3090",         "NVIDIA GeForce RTX 3090",        24576, 86,  35.6,  936,  k4x16},
    {"rtx3080ti",       "NVIDIA GeForce RTX 3080 Ti",     12288, 86,  34.1,  912,  k4x16},
    {"rtx3080-10",      "NVIDIA GeForce RTX 3080",        10240, 86,  29.8,  760,  k4x16},
    {"rtx3080-12",      "NVIDIA GeForce RTX 3080",        12288, 86,  30.6,  912,  k4x16},
    {"rtx3070ti",       "NVIDIA GeForce RTX 3070 Ti",     8192,  86,  21.7,  608,  k4x16},
    {"rtx3070",         "NVIDIA GeForce RTX 3070",        8192,  86,  20.3,  448,  k4x16},
    {"rtx3060ti",       "NVIDIA GeForce RTX 3060 Ti",     8192,  86,  16.2,  448,  k4x16},
    {"rtx3060",         "NVIDIA GeForce RTX 3060",        12288, 86,  12.7,  360,  k4x16},

    {"rtx5090-laptop",   "NVIDIA GeForce RTX 5090 Laptop GPU",    24463, 120, 45.3, 896, k5x8},
    {"rtx5080-laptop",   "NVIDIA GeForce RTX 5080 Laptop GPU",    16303, 120, 35.1, 896, k5x8},
    {"rtx5070ti-laptop", "NVIDIA GeForce RTX 5070 Ti Laptop GPU", 12227, 120, 26.1, 672, k5x8},
    {"rtx5070-laptop",   "NVIDIA GeForce RTX 5070 Laptop GPU",    8151,  120, 21.6, 384, k5x8},
    {"rtx5060-laptop",   "NVIDIA GeForce RTX 5060 Laptop GPU",    8151,  120, 16.6, 384, k5x8},
    {"rtx4090-laptop",   "NVIDIA GeForce RTX 4090 Laptop GPU",    16376, 89,  39.7, 576, k4x8},
    {"rtx4080-laptop",   "NVIDIA GeForce RTX 4080 Laptop GPU",    12282, 89,  33.9, 432, k4x8},
    {"rtx4070-laptop",   "NVIDIA GeForce RTX 4070 Laptop GPU",    8188,  89,  20,   256, k4x8},
    {"rtx4060-laptop",   "NVIDIA GeForce RTX 4060 Laptop GPU",    8188,  89,  14.6, 256, k4x8},
    {"rtx4050-laptop",   "NVIDIA GeForce RTX 4050 Laptop GPU",    6141,  89,  12.1, 192, k4x8},
    {"rtx3080ti-laptop", "NVIDIA GeForce RTX 3080 Ti Laptop GPU", 16384, 86,  23.6, 512, k4x8},
    {"rtx3080-laptop-8", "NVIDIA GeForce RTX 3080 Laptop GPU",    8192,  86,  21,   448, k4x8},
    {"rtx3080-laptop-16", "NVIDIA GeForce RTX 3080 Laptop GPU",   16384, 86,  21,   448, k4x8},
    {"rtx3070ti-laptop", "NVIDIA GeForce RTX 3070 Ti Laptop GPU", 8192,  86,  17.5, 448, k4x8},
    {"rtx3070-laptop",   "NVIDIA GeForce RTX 3070 Laptop GPU",    8192,  86,  16.6, 448, k4x8},
    {"rtx3060-laptop",   "NVIDIA GeForce RTX 3060 Laptop GPU",    6144,  86,  13.1, 336, k4x8},
};

// What clouds call machines that have one kind of GPU, of AWS, Google and Azure; a size may follow
// ("g5.xlarge", "a3-highgpu-8g"). Azure's smaller NV machines, with a part of an A10, are left out.
struct CloudName {
  std::string_view machine, gpu;
};
constexpr CloudName kClouds[] = {
    {"p4d", "a100-40"}, {"p4de", "a100-80"},
    {"p5", "h100"}, {"p5e", "h200"}, {"p5en", "h200"}, {"p6-b200", "b200"},
    {"g5", "a10g"}, {"g6", "l4"}, {"gr6", "l4"}, {"g6e", "l40s"},
    {"a2-highgpu", "a100-40"}, {"a2-megagpu", "a100-40"}, {"a2-ultragpu", "a100-80"},
    {"a3-highgpu", "h100"}, {"a3-megagpu", "h100"}, {"a3-ultragpu", "h200"},
    {"a4-highgpu", "b200"}, {"g2-standard", "l4"},
    {"nc-a100", "a100-80-pcie"}, {"nc24ads_a100_v4", "a100-80-pcie"},
    {"nc48ads_a100_v4", "a100-80-pcie"}, {"nc96ads_a100_v4", "a100-80-pcie"},
    {"nc-h100", "h100-nvl"}, {"nc40ads_h100_v5", "h100-nvl"}, {"nc80adis_h100_v5", "h100-nvl"},
    {"nd96asr_v4", "a100-40"}, {"nd96amsr_a100_v4", "a100-80"}, {"nd96isr_h100_v5", "h100"},
    {"nd96isr_h200_v5", "h200"}, {"nv36ads_a10_v5", "a10"},
    {"nv36adms_a10_v5", "a10"}, {"nv72ads_a10_v5", "a10"},
};
// clang-format on

// CUDA offers less than nvidia-smi's total: by 614 MiB on an H200 (measured), and, by what
// out-of-memory messages say of others, 551 of an H100's, up to 770 of an A100-80's, 390 of an RTX
// 4090's and 320 of an RTX 3090's. A rule that holds for all of them.
constexpr double kKeptBack = 0.02;
constexpr int64_t kMostKeptBack = 832 * MiB;

Link link_of(double one_way) { return {one_way, one_way, kBothWays * one_way}; }

// NVLink's generation, where the card's socket has it: GB/s one way, by data sheets; others go over
// PCI Express. One network card of 400 Gbit/s for each GPU from Hopper on, of 200 before.
Wire wire_of(std::string_view name, int capability, double link) {
  constexpr std::pair<std::string_view, double> kNvLink[] = {
      {"b200", 900}, {"h200", 450}, {"h100", 450}, {"a100-80", 300}, {"a100-40", 300}};
  constexpr double kReached = 0.8;  // of NVLink's, by a collective over large blocks
  const auto found = std::ranges::find(kNvLink, name, [](const auto& row) { return row.first; });
  const double within = found != std::end(kNvLink) ? kReached * found->second : kReached * link;
  return {.within = within * G, .between = (capability >= 90 ? 50 : 25) * kReached * G};
}

// What follows a card's name as "x8"; none where that is a name of its own ("rtx4090").
size_t place_of_count(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789");
  if (digits == std::string_view::npos || digits + 1 == name.size() || name[digits] != 'x')
    return std::string_view::npos;
  return digits;
}

DeviceSpec spec_of(const Row& r) {
  const double bf16 = r.capability >= 80 ? r.half : 0;
  return {r.name,      r.title,      Backend::cuda,       r.capability,
          r.MiB * MiB, r.fp32 * T,   r.tf32 * T,          bf16 * T,
          r.half * T,  r.memory * G, link_of(r.link * G), wire_of(r.name, r.capability, r.link)};
}

std::vector<DeviceSpec> all_devices() {
  std::vector<DeviceSpec> all;
  for (const Row& row : kProfessional) all.push_back(spec_of(row));
  for (const GeForce& g : kGeForce) {
    all.push_back(spec_of(
        {g.name, g.title, g.MiB, g.capability, g.fp32, g.fp32, 2 * g.fp32, g.memory, g.link}));
  }
  return all;
}

// Words of letters and digits, in lower case, without those that tell no cards apart.
std::vector<std::string> words_of(std::string_view text) {
  constexpr std::array<std::string_view, 7> kEmpty{"nvidia",    "geforce",    "tesla",  "gpu",
                                                   "blackwell", "generation", "edition"};
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (word.ends_with("gb")) word.resize(word.size() - 2);
    if (!word.empty() && std::ranges::find(kEmpty, word) == kEmpty.end()) words.push_back(word);
    word.clear();
  }
  return words;
}

// "rtx4090" for "NVIDIA GeForce RTX 4090".
std::string key_of(std::string_view text) { return join(words_of(text), ""); }

// How many parts an entry's name has, where they are the title's words, with or without the words
// for its socket and memory ("a100-40": A100-PCIE-40GB); else none.
size_t shared_parts(const DeviceSpec& spec, std::span<const std::string> title) {
  constexpr std::array<std::string_view, 9> kSockets{"pcie", "sxm",   "sxm2", "sxm3", "sxm4",
                                                     "sxm5", "hbm2e", "hbm3", "hbm3e"};
  const std::vector<std::string> parts = split(spec.name, '-');
  const auto has = [](const auto& words, const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  };
  const bool all = std::ranges::all_of(parts, [&](const auto& part) { return has(title, part); });
  const bool no_other = std::ranges::all_of(
      title, [&](const auto& word) { return has(parts, word) || has(kSockets, word); });
  return all && no_other ? parts.size() : 0;
}

const DeviceSpec* device_of_name(std::string_view name) {
  const auto found = std::ranges::find(device_catalogue(), key_of(name),
                                       [](const DeviceSpec& spec) { return key_of(spec.name); });
  return found != device_catalogue().end() ? &*found : nullptr;
}

// Those that a driver calls so: several, where their memory differs.
std::vector<const DeviceSpec*> devices_of_title(std::string_view title) {
  std::vector<const DeviceSpec*> found;
  for (const DeviceSpec& spec : device_catalogue())
    if (key_of(spec.title) == key_of(title)) found.push_back(&spec);
  return found;
}

// By the name of a cloud's machine: "g5.xlarge", "a3-highgpu-8g", "Standard_NC24ads_A100_v4".
const DeviceSpec* device_of_cloud(std::string_view machine) {
  std::string name;
  for (const char c : machine)
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.starts_with("standard_")) name.erase(0, std::string_view("standard_").size());
  for (const CloudName& known : kClouds) {
    const size_t size = known.machine.size();
    const bool dashed = known.machine.find('-') != std::string_view::npos;  // Google's
    const bool sized = name.starts_with(known.machine) && name.size() > size &&
                       (name[size] == '.' || (dashed && name[size] == '-'));
    if (sized || key_of(name) == key_of(known.machine)) return device_of_name(known.gpu);
  }
  return nullptr;
}

// What a user may have meant: the sizes and kinds of a name, else what is written nearly so.
std::string nearest_names(std::string_view name) {
  std::vector<std::string> names, kinds;
  for (const DeviceSpec& spec : device_catalogue()) {
    names.push_back(spec.name);
    for (size_t dash = 0; (dash = spec.name.find('-', dash)) != std::string::npos; ++dash) {
      if (key_of(spec.name.substr(0, dash)) != key_of(name)) continue;
      kinds.push_back(spec.name);
      break;
    }
  }
  if (kinds.empty()) return did_you_mean(key_of(name), names);
  return fmt::format(" - did you mean '{}'?", fmt::join(kinds, "' or '"));
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

std::span<const DeviceSpec> device_catalogue() {
  static const std::vector<DeviceSpec> all = all_devices();
  return all;
}

DeviceSpec this_cpu(int64_t threads) {
  const auto n = static_cast<double>(std::max<int64_t>(threads, 1));
  const double flops = 60 * G * n;
  return {.name = "cpu",
          .title = "this CPU",
          .backend = Backend::cpu,
          .fp32_flops = flops,
          .tf32_flops = flops,
          .bf16_flops = flops,
          .fp16_flops = flops,
          .bytes_per_s = 10 * G * std::min(n, 8.0),
          .wire = {.within = 2 * G, .between = 1 * G, .machine = 64}};
}

const DeviceSpec* match_device(std::string_view title, int64_t memory_bytes) {
  if (const DeviceSpec* spec = device_of_name(title)) return spec;
  const auto apart = [&](const DeviceSpec* spec) {
    return std::abs(spec->memory_bytes - memory_bytes);
  };
  if (const auto sizes = devices_of_title(title); !sizes.empty())
    return *std::ranges::min_element(sizes, {}, apart);

  const std::vector<std::string> words = words_of(title);
  const DeviceSpec* best = nullptr;
  size_t most = 0;
  for (const DeviceSpec& spec : device_catalogue()) {
    const size_t parts = shared_parts(spec, words);
    if (parts > most) best = &spec;
    most = std::max(most, parts);
  }
  return best;
}

namespace {

// nullptr: there is none of that name.
const DeviceSpec* named_device(std::string_view name) {
  const bool one = device_of_name(name) != nullptr || devices_of_title(name).size() < 2;
  const DeviceSpec* spec = one ? match_device(name) : nullptr;
  return spec != nullptr ? spec : device_of_cloud(name);
}

}  // namespace

int64_t devices_in(std::string_view name) {
  const size_t count = place_of_count(name);
  if (count == std::string_view::npos || named_device(name) != nullptr) return 1;
  int64_t devices = 0;
  if (!read_number(name.substr(count + 1), devices) || devices < 1)
    throw usage_error("--gpu '{}': '{}' is not a number of GPUs", name, name.substr(count + 1));
  return devices;
}

const DeviceSpec& find_device(std::string_view name) {
  const DeviceSpec* spec = named_device(name);
  if (spec == nullptr && place_of_count(name) != std::string_view::npos)
    spec = named_device(name.substr(0, place_of_count(name)));
  if (spec != nullptr) return *spec;
  throw usage_error("--gpu '{}' is not in the catalogue{}", name, nearest_names(name))
      .hint(fmt::format("`snug gpus` lists the {} that are", device_catalogue().size()));
}

std::vector<std::string_view> cloud_names(const DeviceSpec& spec) {
  std::vector<std::string_view> names;
  for (const CloudName& known : kClouds)
    if (known.gpu == spec.name) names.push_back(known.machine);
  return names;
}

}  // namespace snug
