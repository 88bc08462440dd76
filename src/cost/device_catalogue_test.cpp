#include "cost/device_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace snug {
namespace {

using testing::HasSubstr;

std::string name_of_title(std::string_view title) {
  const DeviceSpec* spec = match_device(title);
  return spec != nullptr ? spec->name : "";
}

TEST(DeviceCatalogue, IsComplete) {
  std::set<std::string> names;
  for (const DeviceSpec& spec : device_catalogue()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_EQ(name_of_title(spec.name), spec.name);
    EXPECT_EQ(name_of_title(spec.title), spec.name);
    EXPECT_GT(spec.memory_bytes, int64_t{8} << 30) << spec.name;
    EXPECT_GT(spec.bytes_per_s, spec.link_bytes_per_s) << spec.name;
    EXPECT_GT(spec.fp16_flops, spec.fp32_flops) << spec.name;
    EXPECT_TRUE(spec.tf32_flops == 0 || spec.tf32_flops >= spec.fp32_flops) << spec.name;
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

TEST(DeviceCatalogue, TakesNamesInAnyDress) {
  for (const char* name : {"rtx4090", "RTX 4090", "rtx-4090", "NVIDIA GeForce RTX 4090"})
    EXPECT_EQ(find_device(name).name, "rtx4090") << name;
}

TEST(DeviceCatalogue, KnowsWhatDriversSay) {
  EXPECT_EQ(name_of_title("NVIDIA H100 PCIe"), "h100-pcie");
  EXPECT_EQ(name_of_title("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(name_of_title("NVIDIA H100 NVL"), "h100-nvl");
  EXPECT_EQ(name_of_title("NVIDIA H200 NVL"), "h200");
  EXPECT_EQ(name_of_title("NVIDIA A100-PCIE-40GB"), "a100-40");
  EXPECT_EQ(name_of_title("A100-SXM-80GB"), "a100-80");
  EXPECT_EQ(name_of_title("NVIDIA A100 80GB PCIe"), "a100-80-pcie");
  EXPECT_EQ(name_of_title("Tesla V100-SXM2-16GB"), "v100-16");
  EXPECT_EQ(name_of_title("Tesla V100-PCIE-32GB"), "v100-32");
}

TEST(DeviceCatalogue, DoesNotTakeOneDeviceForAnother) {
  for (const char* title : {"NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D",
                            "NVIDIA GeForce RTX 3090 Ti", "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
                            "NVIDIA A100", "NVIDIA L40", "NVIDIA A10G", "NVIDIA", "4090", ""})
    EXPECT_EQ(name_of_title(title), "") << title;
}

TEST(DeviceCatalogue, NamesTheNearestOfAnUnknownDevice) {
  try {
    find_device("rtx4099");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'rtx4090'?"));
    for (const DeviceSpec& spec : device_catalogue())
      EXPECT_THAT(error.hint(), HasSubstr(spec.name));
  }
}

TEST(DeviceSpec, DoesInFp32WhatItHasNoArithmeticFor) {
  const DeviceSpec& v100 = find_device("v100-16");
  EXPECT_EQ(v100.peak_flops(Dtype::bf16, {.tf32 = true}), v100.fp32_flops);
  EXPECT_EQ(v100.peak_flops(Dtype::f16, {}), v100.fp16_flops);
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
