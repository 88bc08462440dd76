// What is taken where nothing is said: the device, its memory, the type of weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "recipe/resolve.h"
#include "snug/set_option.h"

namespace snug {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

Options on(const char* device, const char* gpu = "") {
  Options o;
  o.model = "snug-tiny";
  set_option(o, "device", device);
  o.gpu = gpu;
  return o;
}

TEST(Defaults, DeviceIsGpuWherePresent) {
  const auto words = [](const Options& o) {
    return print_setting(device_of(o, /*gpu_answers=*/false)) + " " +
           print_setting(device_of(o, /*gpu_answers=*/true));
  };
  EXPECT_EQ(print_setting(Options{}.device), "auto");
  EXPECT_EQ(words(on("auto")), "cpu cuda");
  EXPECT_EQ(words(on("cpu")), "cpu cpu");
  EXPECT_EQ(words(on("cuda")), "cuda cuda");
  EXPECT_EQ(words(on("null")), "null null");
  EXPECT_EQ(words(on("auto", "rtx4090")), "cuda cuda") << "it is planned for, here or not";
  EXPECT_THROW(on("gpu"), Error);
}

// Stages' first forwards are one after another, and so would be the updates that are folded into them.
TEST(Defaults, UpdatesAreFoldedWhereNothingWaits) {
  Options o = on("cuda");
  set_option(o, "offload", "optimizer,master");
  EXPECT_TRUE(resolve(o).recipe.fold_update);
  o.ranks = o.pp = 2;
  EXPECT_FALSE(resolve(o).recipe.fold_update);
  set_option(o, "fold-update", "on");
  EXPECT_TRUE(resolve(o).recipe.fold_update);
}

TEST(Defaults, GpuUsesBf16WithMastersCpuFp32) {
  EXPECT_EQ(print_setting(Options{}.precision), "auto");
  const Resolved gpu = resolve(on("cuda"));
  EXPECT_EQ(gpu.recipe.precision, Dtype::bf16);
  EXPECT_TRUE(gpu.recipe.master);
  EXPECT_EQ(print_setting(gpu.options.precision), "bf16") << "what was chosen is what is printed";
  EXPECT_EQ(print_setting(gpu.asked.precision), "auto");
  EXPECT_EQ(resolve(on("auto", "rtx4090")).recipe.precision, Dtype::bf16);
  EXPECT_EQ(resolve(on("cpu")).recipe.precision, Dtype::f32);
  EXPECT_EQ(resolve(on("null")).recipe.precision, Dtype::f32);
  EXPECT_EQ(changed(gpu, {{&Options::batch, 2}}).recipe.precision, Dtype::bf16);
  Options pinned = on("cuda");
  set_option(pinned, "precision", "fp32");
  EXPECT_EQ(resolve(pinned).recipe.precision, Dtype::f32);
  set_option(pinned, "precision", "auto");
  pinned.tf32 = true;
  EXPECT_EQ(resolve(pinned).recipe.precision, Dtype::f32) << "it says how fp32 is computed";
}

TEST(Defaults, EveryCatalogueGpuSupportsItsBf16) {
  for (const DeviceSpec& spec : device_catalogue()) EXPECT_GT(spec.bf16_flops, 0) << spec.name;
}

TEST(Defaults, GpuBudgetIsFreeMemory) {
  const Resolved run = resolve(on("cuda"), 24 * kGiB);
  EXPECT_EQ(run.budget, 24 * kGiB - run.context);
  EXPECT_TRUE(run.within_free_memory());
  Options given = on("cuda");
  set_option(given, "budget", "8GiB");
  EXPECT_EQ(resolve(given, 24 * kGiB).budget, 8 * kGiB - run.context);
  EXPECT_FALSE(resolve(given, 24 * kGiB).within_free_memory());
  const Resolved planned = resolve(on("auto", "rtx4090"), kGiB);
  EXPECT_GT(*planned.budget, 20 * kGiB) << "the memory of the one that it is planned for";
  EXPECT_FALSE(planned.within_free_memory());
  EXPECT_FALSE(resolve(on("cuda")).budget);
}

TEST(Defaults, GpuWithoutFreeMemoryIsRefused) {
  try {
    resolve(on("cuda"), int64_t{100} << 20);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("100.00 MiB are free on this GPU"));
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("nvidia-smi"));
  }
}

TEST(Defaults, SavedRunKeepsOpenChoices) {
  const Resolved run = resolve(on("auto", "rtx4090"));
  const std::string toml = to_toml(run, {});
  const std::string asked = toml.substr(0, toml.find("[settled]"));
  const std::string settled = toml.substr(asked.size());
  using ::testing::HasSubstr;
  EXPECT_THAT(asked, HasSubstr("device = \"auto\""));
  EXPECT_THAT(asked, HasSubstr("precision = \"auto\""));
  EXPECT_THAT(settled, HasSubstr("device = \"cuda\""));
  EXPECT_THAT(settled, HasSubstr("precision = \"bf16\""));
}

}  // namespace
}  // namespace snug
