// doctor on machines that are made up: what it says of a GPU, and what it advises.
#include "machine/missing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace snug {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr HostProbe kHost{.cores = 8, .memory = int64_t{64} << 30, .available = int64_t{60} << 30};

const MpiRow kMpi{"Open MPI v4.1.4", ""};

GpuProbe gpu(std::string name, int capability, int64_t shared_kib, int threads) {
  return {.name = std::move(name),
          .major = capability / 10,
          .minor = capability % 10,
          .multiprocessors = 100,
          .threads = threads,
          .shared_of_block = shared_kib << 10};
}
const GpuProbe kH200 = gpu("NVIDIA H200", 90, 227, 2048);
const GpuProbe k4090 = gpu("NVIDIA GeForce RTX 4090", 89, 99, 1536);
const GpuProbe k5090 = gpu("NVIDIA GeForce RTX 5090", 120, 99, 1536);
const GpuProbe kT4 = gpu("Tesla T4", 75, 64, 1024);

// All that a machine can have, with a binary for `architectures`.
CudaProbe machine(std::vector<GpuProbe> gpus, std::string_view architectures) {
  return {.built = true,
          .toolkit = 13000,
          .cudnn_built = true,
          .built_for = architectures_of(architectures),
          .driver = {.version = "580.1", .cuda = 13000, .gpus = std::move(gpus)},
          .cublas_lt = {"libcublasLt.so.13", "13.0.0"},
          .cudnn = {"libcudnn.so.9", "9.19.0"},
          .nccl = {"libnccl.so.2", "2.27.3"}};
}

// As one line, whatever the width of the page.
std::string table_of(const CudaProbe& probe) {
  std::string text;
  for (const char c : doctor_table(kHost, probe, kMpi, missing_of(probe)))
    if (c != ' ' && c != '\n') {
      text += c;
    } else if (!text.ends_with(' ')) {
      text += ' ';
    }
  return text;
}

nlohmann::json gpu_json(const CudaProbe& probe) {
  return nlohmann::json::parse(doctor_json(kHost, probe, kMpi, missing_of(probe)))["gpus"][0];
}

TEST(Doctor, ReportsKernelsOfGpu) {
  const std::string hopper = table_of(machine({kH200}, "90"));
  EXPECT_THAT(hopper, HasSubstr("✓ CUDA backend built with 13.0, for 9.0 and PTX of 9.0 "));
  EXPECT_THAT(hopper, HasSubstr("✓ GPU 0 NVIDIA H200, compute capability 9.0, "));
  EXPECT_THAT(hopper, HasSubstr("native code in this binary "));
  EXPECT_THAT(hopper,
              HasSubstr("227.00 KiB of shared memory a block, 2,048 threads a multiprocessor "));
  EXPECT_THAT(hopper, HasSubstr("tf32 and fp8; early launches and clusters "));
  EXPECT_THAT(hopper, HasSubstr("attention: cuDNN in bf16 and fp16; Snug's tensor-core kernels "));
  EXPECT_THAT(hopper, HasSubstr("✓ sockets between ranks on CPUs ✓ MPI Open MPI v4.1.4 "));
  EXPECT_THAT(hopper, HasSubstr("nothing is missing"));

  const std::string ada = table_of(machine({k4090}, "80-real/86-real/89-real/90"));
  EXPECT_THAT(ada, HasSubstr("native code in this binary "));
  EXPECT_THAT(ada, HasSubstr("99.00 KiB of shared memory a block, 1,536 threads "));
  EXPECT_THAT(ada, HasSubstr("tf32 and fp8; no early launches or clusters "));
}

TEST(Doctor, ReportsKernelsOfGpuAsJson) {
  const nlohmann::json hopper = gpu_json(machine({kH200}, "90"));
  EXPECT_EQ(hopper["supported"], true);
  EXPECT_EQ(hopper["code"], "native");
  EXPECT_EQ(hopper["shared_bytes_per_block"], 227 << 10);
  EXPECT_EQ(hopper["threads_per_multiprocessor"], 2048);
  EXPECT_EQ(hopper["fp8"], true);
  EXPECT_EQ(hopper["clusters"], true);
  EXPECT_EQ(hopper["attention"], (nlohmann::json{"cudnn", "tensor_cores", "plain_tiles"}));
  const nlohmann::json old = gpu_json(machine({kT4}, "90"));
  EXPECT_EQ(old["supported"], false);
  EXPECT_EQ(old["code"], "none");
  EXPECT_TRUE(old["attention"].empty());
  EXPECT_EQ(old["tensor_cores"], false) << "in bf16 and tf32";
}

TEST(Doctor, ReportsCompilationOnLoad) {
  const std::string text = table_of(machine({k5090}, "90"));
  EXPECT_THAT(text, HasSubstr("✓ GPU 0 "));
  EXPECT_THAT(text,
              HasSubstr("no native code in this binary (it has 9.0 and PTX of 9.0): PTX is "));
  EXPECT_THAT(text, HasSubstr("compiled by the driver at the first start"));
  EXPECT_THAT(text, HasSubstr("./dev build --all-gpus."));
  EXPECT_EQ(gpu_json(machine({k5090}, "90"))["code"], "ptx");
}

TEST(Doctor, ReportsMissingCode) {
  const std::string text = table_of(machine({k4090}, "90"));
  EXPECT_THAT(text, HasSubstr("✗ GPU 0 "));
  EXPECT_THAT(text, HasSubstr("no code in this binary, which has 9.0 and PTX of 9.0 "));
  EXPECT_THAT(text, HasSubstr("This binary has no code for it: nothing runs on it."));
}

TEST(Doctor, ReportsUnsupportedCardBeforeAmpere) {
  const std::string text = table_of(machine({k4090, kT4}, "80-real/89"));
  EXPECT_THAT(text, HasSubstr("✓ GPU 0 "));
  EXPECT_THAT(text, HasSubstr("✗ GPU 1 Tesla T4, compute capability 7.5, "));
  EXPECT_THAT(text,
              HasSubstr("not supported: Snug's kernels need compute capability 8.0 or newer"));
  EXPECT_THAT(text, HasSubstr("GPU 1 It is not supported: "));
}

TEST(Doctor, ReportsAttentionServerWithoutCudnn) {
  CudaProbe probe = machine({kH200}, "90");
  probe.cudnn.version.clear();
  EXPECT_THAT(table_of(probe), HasSubstr("attention: Snug's tensor-core kernels in bf16 and fp16"));
  EXPECT_EQ(gpu_json(probe)["attention"], (nlohmann::json{"tensor_cores", "plain_tiles"}));
}

TEST(Doctor, ReportsWhyMpiIsMissing) {
  const CudaProbe probe = machine({kH200}, "90");
  const MpiRow none{"", "this build has no MPI"};
  EXPECT_THAT(doctor_table(kHost, probe, none, {}),
              HasSubstr("✗ MPI             this build has no MPI\n"));
  EXPECT_TRUE(nlohmann::json::parse(doctor_json(kHost, probe, none, {}))["mpi"].is_null());
  EXPECT_EQ(nlohmann::json::parse(doctor_json(kHost, probe, kMpi, {}))["mpi"], "Open MPI v4.1.4");
}

// NVML knows a GPU's name and capability in a build without CUDA.
TEST(Doctor, ReportsOnlyKnownFacts) {
  const CudaProbe probe{.driver = {.version = "580.1",
                                   .cuda = 13000,
                                   .gpus = {{.name = "NVIDIA H200", .major = 9, .minor = 0}}},
                        .why_not = "this build has no CUDA backend"};
  const std::string text = table_of(probe);
  EXPECT_THAT(text, HasSubstr("tensor cores in bf16"));
  EXPECT_THAT(text, Not(HasSubstr("in this binary")));
  EXPECT_THAT(text, Not(HasSubstr("attention:")));
  const nlohmann::json object = gpu_json(probe);
  for (const char* key : {"code", "multiprocessors", "shared_bytes_per_block"})
    EXPECT_TRUE(object[key].is_null()) << key;
}

}  // namespace
}  // namespace snug
