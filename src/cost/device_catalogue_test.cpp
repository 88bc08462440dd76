#include "cost/device_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace snug {
namespace {

using ::testing::HasSubstr;

std::string name_of_title(std::string_view title) {
  const DeviceSpec* spec = match_device(title);
  return spec != nullptr ? spec->name : "";
}

TEST(DeviceCatalogue, FindsEveryEntryByItsNameAndItsTitle) {
  std::set<std::string> names;
  for (const DeviceSpec& spec : device_catalogue()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_EQ(find_device(spec.name).name, spec.name);
    EXPECT_EQ(match_device(spec.title, spec.memory_bytes), &spec) << spec.title;
  }
}

TEST(DeviceCatalogue, HasPlausibleFigures) {
  for (const DeviceSpec& spec : device_catalogue()) {
    SCOPED_TRACE(spec.name);
    EXPECT_GE(spec.memory_bytes, int64_t{5} << 30);
    EXPECT_LE(spec.memory_bytes, int64_t{192} << 30);
    EXPECT_GT(spec.bytes_per_s, spec.link.in);
    EXPECT_EQ(spec.link.in, spec.link.out);
    EXPECT_GT(spec.link.both, spec.link.in / 2);
    EXPECT_LT(spec.link.both, spec.link.in);
    EXPECT_GT(spec.fp16_flops, spec.fp32_flops);
    EXPECT_GE(spec.capability, 70);
    if (spec.capability < 80) {
      EXPECT_EQ(spec.tf32_flops + spec.bf16_flops, 0) << "they came with Ampere";
      continue;
    }
    EXPECT_EQ(spec.bf16_flops, spec.fp16_flops);
    EXPECT_GE(spec.tf32_flops, spec.fp32_flops);
    EXPECT_NEAR(spec.bf16_flops / spec.tf32_flops, 2, 0.05);
  }
}

TEST(DeviceCatalogue, CollectiveUsesLinksOfItsRanks) {
  const Wire wire{.within = 400, .between = 50, .machine = 8};
  EXPECT_EQ(wire.rate(8), 400) << "one machine";
  EXPECT_EQ(wire.rate(16), 400) << "eight cards at once";
  EXPECT_EQ(wire.rate(2, /*stride=*/4), 400) << "still one machine";
  EXPECT_EQ(wire.rate(4, /*stride=*/4), 100) << "two of a machine, with three other such groups";
  EXPECT_EQ(wire.rate(2, /*stride=*/8), 50) << "one of each machine";
  EXPECT_EQ(wire.exchange_rate(8), 400);
  EXPECT_EQ(wire.exchange_rate(16), 100) << "half of it leaves the machine";
}

TEST(DeviceCatalogue, FindsLinksByGenerationAndLanes) {
  const auto link = [](const char* name) { return find_device(name).link.in / 1e9; };
  EXPECT_NEAR(link("h200"), 55.2, 0.5) << "measured";
  EXPECT_NEAR(find_device("h200").link.both / 1e9, 49.2, 0.5) << "measured";
  EXPECT_EQ(link("rtx5090"), link("h200")) << "PCI Express 5, 16 lanes";
  for (const char* fourth : {"a100-80", "l4", "a10g", "a40", "a6000", "rtx4090", "rtx3090"})
    EXPECT_EQ(link(fourth), 25) << fourth;
  EXPECT_EQ(link("rtx4060"), 12) << "8 lanes";
  EXPECT_EQ(link("rtx4090-laptop"), 12);
}

// Within a generation of GeForce cards, a higher number is a faster card, and a laptop's is slower
// than the desktop's of its name.
TEST(DeviceCatalogue, OrdersCardsAsTheirNamesDo) {
  const std::vector<std::vector<const char*>> rising{
      {"rtx3060", "rtx3060ti", "rtx3070", "rtx3070ti", "rtx3080-10", "rtx3080-12", "rtx3080ti",
       "rtx3090", "rtx3090ti"},
      {"rtx4060", "rtx4060ti-8", "rtx4070", "rtx4070-super", "rtx4070ti", "rtx4070ti-super",
       "rtx4080", "rtx4080-super", "rtx4090d", "rtx4090"},
      {"rtx5060", "rtx5060ti-8", "rtx5070", "rtx5070ti", "rtx5080", "rtx5090"},
      {"rtx4070-laptop", "rtx4070"},
      {"rtx4050-laptop", "rtx4060-laptop", "rtx4070-laptop", "rtx4080-laptop", "rtx4090-laptop",
       "rtx4090"},
      {"rtx5060-laptop", "rtx5070-laptop", "rtx5070ti-laptop", "rtx5080-laptop", "rtx5090-laptop",
       "rtx5090"},
  };
  for (const auto& names : rising) {
    for (size_t i = 1; i < names.size(); ++i) {
      const DeviceSpec& slower = find_device(names[i - 1]);
      const DeviceSpec& faster = find_device(names[i]);
      EXPECT_LT(slower.bf16_flops, faster.bf16_flops) << names[i];
      EXPECT_LE(slower.bytes_per_s, faster.bytes_per_s) << names[i];
    }
  }
}

// What cudaMemGetInfo calls the total: on an H200 as measured, of the others as reported.
TEST(DeviceCatalogue, PromisesNoMoreThanCudaOffers) {
  const std::pair<const char*, double> offered[] = {
      {"h200", 139.80},   {"h100", 79.10},    {"a100-80", 79.25}, {"a100-40", 39.39},
      {"rtx5090", 31.36}, {"rtx4090", 23.61}, {"rtx3090", 23.69}};
  for (const auto& [name, gib] : offered) {
    const auto promised = static_cast<double>(find_device(name).usable_bytes()) / (1 << 30);
    EXPECT_LT(promised, gib) << name;
    EXPECT_GT(promised, 0.985 * gib) << name;
  }
}

TEST(DeviceCatalogue, AcceptsSpellingsOfNames) {
  for (const char* name : {"rtx4090", "RTX 4090", "rtx-4090", "NVIDIA GeForce RTX 4090"})
    EXPECT_EQ(find_device(name).name, "rtx4090") << name;
  EXPECT_EQ(find_device("RTX 4070 Ti Super").name, "rtx4070ti-super");
  EXPECT_EQ(find_device("RTX 4060 Ti 16GB").name, "rtx4060ti-16");
  EXPECT_EQ(find_device("rtx 4090 laptop").name, "rtx4090-laptop");
  EXPECT_EQ(find_device("RTX PRO 6000").name, "rtxpro6000");
  EXPECT_EQ(find_device("A100 80 GB").name, "a100-80");
}

TEST(DeviceCatalogue, AcceptsCloudMachines) {
  const std::pair<const char*, const char*> machines[] = {
      {"p4d.24xlarge", "a100-40"},
      {"p4de.24xlarge", "a100-80"},
      {"p5.48xlarge", "h100"},
      {"p5en.48xlarge", "h200"},
      {"p6-b200.48xlarge", "b200"},
      {"g5.xlarge", "a10g"},
      {"g6.12xlarge", "l4"},
      {"G6E.xlarge", "l40s"},
      {"g5", "a10g"},
      {"a2-highgpu-1g", "a100-40"},
      {"a2-ultragpu-8g", "a100-80"},
      {"a3-highgpu-8g", "h100"},
      {"a3-ultragpu-8g", "h200"},
      {"a4-highgpu-8g", "b200"},
      {"g2-standard-4", "l4"},
      {"Standard_NC24ads_A100_v4", "a100-80-pcie"},
      {"nc-a100", "a100-80-pcie"},
      {"ND96isr_H100_v5", "h100"},
      {"NC40ads_H100_v5", "h100-nvl"},
      {"Standard_NV36ads_A10_v5", "a10"},
  };
  for (const auto& [machine, gpu] : machines) EXPECT_EQ(find_device(machine).name, gpu) << machine;
  for (const DeviceSpec& spec : device_catalogue())
    for (const std::string_view machine : cloud_names(spec))
      EXPECT_EQ(find_device(machine).name, spec.name) << machine;
  for (const char* machine : {"p4", "p4x.large", "p3.2xlarge", "g6f.xlarge", "g6-standard-4",
                              "g4dn.xlarge", "m5.large", "Standard_NV6ads_A10_v5", "a3", "g2"})
    EXPECT_THROW(find_device(machine), Error) << machine;
  EXPECT_EQ(name_of_title("g5"), "") << "no driver says so";
}

TEST(DeviceCatalogue, AcceptsDriverNames) {
  EXPECT_EQ(name_of_title("NVIDIA H100 PCIe"), "h100-pcie");
  EXPECT_EQ(name_of_title("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(name_of_title("NVIDIA H100 NVL"), "h100-nvl");
  EXPECT_EQ(name_of_title("NVIDIA H200 NVL"), "h200-nvl");
  EXPECT_EQ(name_of_title("NVIDIA A100-PCIE-40GB"), "a100-40");
  EXPECT_EQ(name_of_title("A100-SXM-80GB"), "a100-80");
  EXPECT_EQ(name_of_title("NVIDIA A100 80GB PCIe"), "a100-80-pcie");
  EXPECT_EQ(name_of_title("NVIDIA A10G"), "a10g");
  EXPECT_EQ(name_of_title("NVIDIA RTX 6000 Ada Generation"), "rtx6000-ada");
  EXPECT_EQ(name_of_title("NVIDIA RTX PRO 6000 Blackwell Server Edition"), "rtxpro6000-server");
  EXPECT_EQ(name_of_title("NVIDIA GeForce RTX 4090 D"), "rtx4090d");
  EXPECT_EQ(name_of_title("NVIDIA GeForce RTX 3090 Ti"), "rtx3090ti");
  EXPECT_EQ(name_of_title("NVIDIA GeForce RTX 4070 SUPER"), "rtx4070-super");
  EXPECT_EQ(name_of_title("NVIDIA GeForce RTX 4090 Laptop GPU"), "rtx4090-laptop");
}

TEST(DeviceCatalogue, DistinguishesCardsByMemory) {
  const char* title = "NVIDIA GeForce RTX 3080";
  EXPECT_EQ(match_device(title, int64_t{12288} << 20)->name, "rtx3080-12");
  EXPECT_EQ(match_device(title, int64_t{10240} << 20)->name, "rtx3080-10");
  EXPECT_EQ(match_device(title)->name, "rtx3080-10") << "the smaller where nothing is known";
}

TEST(DeviceCatalogue, DoesNotTakeOneDeviceForAnother) {
  for (const char* title :
       {"NVIDIA GeForce RTX 3050", "NVIDIA GeForce RTX 3060 Mobile", "NVIDIA GeForce RTX 2080 Ti",
        "NVIDIA GeForce RTX 5090 D", "NVIDIA RTX A5000 Laptop GPU", "NVIDIA RTX A6000-12Q",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H100 96GB HBM3", "NVIDIA GH200 480GB",
        "NVIDIA A100", "Tesla T4", "Tesla V100-SXM2-16GB", "NVIDIA A2", "NVIDIA", "4090", ""})
    EXPECT_EQ(name_of_title(title), "") << title;
}

// What an unknown name is answered.
std::string refusal(std::string_view name) {
  try {
    find_device(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.hint(), HasSubstr("`snug gpus` lists the "));
    return error.what();
  }
  ADD_FAILURE() << name << " was found";
  return "";
}

TEST(DeviceCatalogue, UnknownDeviceSuggestsNearest) {
  EXPECT_THAT(refusal("rtx4099"), HasSubstr("did you mean 'rtx4090'?"));
  EXPECT_THAT(refusal("RTX 4060 Ti"), HasSubstr("did you mean 'rtx4060ti-8' or 'rtx4060ti-16'?"));
  EXPECT_THAT(refusal("rtx 3080"), HasSubstr("did you mean 'rtx3080-10' or 'rtx3080-12'"));
  EXPECT_EQ(refusal("abacus"), "--gpu 'abacus' is not in the catalogue");
}

TEST(DeviceSpec, UsesFp32WithoutTensorArithmetic) {
  DeviceSpec plain = find_device("a100-40");
  plain.tf32_flops = plain.bf16_flops = 0;
  EXPECT_EQ(plain.peak_flops(Dtype::bf16, {.tf32 = true}), plain.fp32_flops);
  EXPECT_EQ(plain.peak_flops(Dtype::f16, {}), plain.fp16_flops);
  const DeviceSpec& h200 = find_device("h200");
  EXPECT_EQ(h200.peak_flops(Dtype::f32, {.tf32 = true}), h200.tf32_flops);
  EXPECT_EQ(h200.peak_flops(Dtype::f32, {}), h200.fp32_flops);
}

TEST(ThisCpu, IsFasterWithMoreThreads) {
  EXPECT_EQ(this_cpu(8).fp32_flops, 8 * this_cpu(1).fp32_flops);
  EXPECT_EQ(this_cpu(0).fp32_flops, this_cpu(1).fp32_flops);
  EXPECT_EQ(this_cpu(64).bytes_per_s, this_cpu(8).bytes_per_s) << "memory is shared";
}

}  // namespace
}  // namespace snug
