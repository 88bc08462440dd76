#include "hal/cuda/probe.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "hal/library.h"

namespace snug {
namespace {

#ifdef SNUG_CUDNN
constexpr bool kCudnnBuilt = true;
#else
constexpr bool kCudnnBuilt = false;
#endif

// cuBLASLt, cuDNN 9 and NCCL all count like this: 91300 is 9.13.0.
std::string version_text(int64_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

LibraryProbe probe_library(std::string file, const char* get_version) {
  const Library library(file);
  auto* get = library.function<size_t()>(get_version);
  return {std::move(file), get != nullptr ? version_text(static_cast<int64_t>(get())) : ""};
}

LibraryProbe probe_nccl() {
  const Library library("libnccl.so.2");
  int number = 0;
  auto* get = library.function<int(int*)>("ncclGetVersion");
  const bool told = get != nullptr && get(&number) == 0;
  return {library.file(), told ? version_text(number) : ""};
}

std::string pci_address(int device) {
  std::array<char, 32> address{};
  const auto size = static_cast<int>(address.size());
  const cudaError_t status = cudaDeviceGetPCIBusId(address.data(), size, device);
  return status == cudaSuccess ? address.data() : "";
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  return cudaDeviceGetAttribute(&value, which, device) == cudaSuccess ? value : 0;
}

std::string name_of_gpu(int device) {
  cudaDeviceProp properties{};
  const cudaError_t status = cudaGetDeviceProperties(&properties, device);
  return status == cudaSuccess ? properties.name : "GPU";
}

GpuProbe probe_device(int device) {
  GpuProbe gpu = probe_gpu(pci_address(device)).value_or(GpuProbe{});
  if (gpu.name.empty()) gpu.name = name_of_gpu(device);
  gpu.major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  gpu.minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
  gpu.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  gpu.threads = attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device);
  gpu.shared_of_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return gpu;
}

// CUDA's own number where NVML does not answer.
int driver_cuda() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

struct Devices {
  int count = 0;
  cudaError_t status = cudaSuccess;
};

Devices devices() {
  Devices found;
  found.status = cudaGetDeviceCount(&found.count);
  cudaGetLastError();  // an absent GPU is an answer, not an error to be found later
  if (found.status != cudaSuccess) found.count = 0;
  return found;
}

CudaAnswers::Start start_of(cudaError_t status) {
  using Start = CudaAnswers::Start;
  if (status == cudaSuccess) return Start::works;
  if (status == cudaErrorInsufficientDriver) return Start::driver_too_old;
  return status == cudaErrorNoDevice ? Start::no_gpu : Start::fails;
}

std::string why_not(const Devices& found) {
  CudaAnswers answers{.start = start_of(found.status),
                      .gpus = found.count,
                      .driver = driver_cuda(),
                      .toolkit = CUDART_VERSION,
                      .failure = cudaGetErrorString(found.status)};
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) answers.visible = visible;
  return why_unusable(answers);
}

}  // namespace

CudaProbe probe_cuda() {
  const Devices found = devices();
  CudaProbe probe{
      .built = true,
      .toolkit = CUDART_VERSION,
      .cudnn_built = kCudnnBuilt,
      .built_for = architectures_of(SNUG_CUDA_ARCHITECTURES),
      .driver = probe_driver(),
      .cublas_lt = probe_library(fmt::format("libcublasLt.so.{}", CUDART_VERSION / 1000),
                                 "cublasLtGetVersion"),
      .cudnn = probe_library("libcudnn.so.9", "cudnnGetVersion"),
      .nccl = probe_nccl(),
      .why_not = why_not(found)};
  if (probe.driver.cuda == 0) probe.driver.cuda = driver_cuda();
  if (found.count > 0) probe.driver.gpus.clear();
  for (int device = 0; device < found.count; ++device)
    probe.driver.gpus.push_back(probe_device(device));
  return probe;
}

std::string why_no_cuda() { return why_not(devices()); }

std::optional<int64_t> gpu_used_bytes(int device) {
  const auto memory = gpu_memory(pci_address(device));
  if (!memory) return {};
  return memory->used;
}

std::optional<int64_t> gpu_bytes_of_this_process(int device) {
  const auto gpu = probe_gpu(pci_address(device));
  if (!gpu) return {};
  const auto mine = std::ranges::find(gpu->processes, int64_t{getpid()}, &GpuProcess::pid);
  return mine != gpu->processes.end() ? mine->bytes : std::nullopt;
}

GpuGauges gauges_of_this_gpu() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return {};
  return gpu_gauges(pci_address(device));
}

std::optional<int64_t> gpu_free_bytes(int device) {
  const auto memory = gpu_memory(pci_address(device));
  if (!memory) return {};
  return memory->free;
}

}  // namespace snug
