#include "hal/nvml.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <span>

#include "hal/library.h"

namespace snug {
namespace {

// The part of NVML's interface that is used here, as its documentation gives it.
using Handle = struct NvmlDevice*;
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;

struct MemoryV1 {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned int kMemoryV2 = sizeof(MemoryV2) | (2U << 24U);

struct ProcessInfo {
  unsigned int pid;
  unsigned long long bytes;
  unsigned int gpu_instance, compute_instance;
};
struct Utilisation {
  unsigned int gpu, memory;  // percent
};
constexpr int kClockOfMultiprocessors = 1;
constexpr unsigned long long kNotTold = ~0ULL;

using Text = std::array<char, 96>;

// nullptr: this driver does not have the function.
struct Functions {
  Library library{"libnvidia-ml.so.1"};
  int (*init)() = library.function<int()>("nvmlInit_v2");
  int (*driver_version)(char*, unsigned) =
      library.function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  int (*cuda_version)(int*) = library.function<int(int*)>("nvmlSystemGetCudaDriverVersion_v2");
  int (*count)(unsigned*) = library.function<int(unsigned*)>("nvmlDeviceGetCount_v2");
  int (*by_index)(unsigned, Handle*) =
      library.function<int(unsigned, Handle*)>("nvmlDeviceGetHandleByIndex_v2");
  int (*by_address)(const char*, Handle*) =
      library.function<int(const char*, Handle*)>("nvmlDeviceGetHandleByPciBusId_v2");
  int (*name)(Handle, char*,
              unsigned) = library.function<int(Handle, char*, unsigned)>("nvmlDeviceGetName");
  int (*capability)(Handle, int*, int*) =
      library.function<int(Handle, int*, int*)>("nvmlDeviceGetCudaComputeCapability");
  int (*memory)(Handle,
                MemoryV1*) = library.function<int(Handle, MemoryV1*)>("nvmlDeviceGetMemoryInfo");
  int (*memory_v2)(Handle, MemoryV2*) =
      library.function<int(Handle, MemoryV2*)>("nvmlDeviceGetMemoryInfo_v2");
  int (*processes)(Handle, unsigned*, ProcessInfo*) =
      library.function<int(Handle, unsigned*, ProcessInfo*)>(
          "nvmlDeviceGetComputeRunningProcesses_v3");
  int (*utilisation)(Handle, Utilisation*) =
      library.function<int(Handle, Utilisation*)>("nvmlDeviceGetUtilizationRates");
  int (*milliwatts)(Handle, unsigned*) =
      library.function<int(Handle, unsigned*)>("nvmlDeviceGetPowerUsage");
  int (*clock)(Handle, int,
               unsigned*) = library.function<int(Handle, int, unsigned*)>("nvmlDeviceGetClockInfo");
};

template <typename... Parameters, typename... Arguments>
bool ok(int (*function)(Parameters...), Arguments... arguments) {
  return function != nullptr && function(arguments...) == kSuccess;
}

std::string process_name(int64_t pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  return name;
}

// The second version tells what the driver keeps for itself apart from `used`, as nvidia-smi does.
std::optional<NvmlMemory> memory_of(const Functions& call, Handle device) {
  MemoryV2 now{.version = kMemoryV2};
  if (ok(call.memory_v2, device, &now)) {
    return NvmlMemory{static_cast<int64_t>(now.total), static_cast<int64_t>(now.used),
                      static_cast<int64_t>(now.free)};
  }
  MemoryV1 before{};
  if (!ok(call.memory, device, &before)) return {};
  return NvmlMemory{static_cast<int64_t>(before.total), static_cast<int64_t>(before.used),
                    static_cast<int64_t>(before.free)};
}

std::vector<GpuProcess> processes_of(const Functions& call, Handle device) {
  if (call.processes == nullptr) return {};
  std::vector<ProcessInfo> infos(16);
  auto count = static_cast<unsigned>(infos.size());
  int status = 0;
  while ((status = call.processes(device, &count, infos.data())) == kInsufficientSize) {
    infos.resize(2 * std::max<size_t>(count, infos.size()));
    count = static_cast<unsigned>(infos.size());
  }
  if (status != kSuccess) return {};
  std::vector<GpuProcess> out;
  for (const ProcessInfo& info : std::span(infos).first(count)) {
    GpuProcess& process = out.emplace_back(GpuProcess{info.pid, process_name(info.pid), {}});
    if (info.bytes != kNotTold) process.bytes = static_cast<int64_t>(info.bytes);
  }
  return out;
}

GpuProbe describe(const Functions& call, Handle device) {
  GpuProbe gpu;
  Text name{};
  if (ok(call.name, device, name.data(), static_cast<unsigned>(name.size())))
    gpu.name = name.data();
  ok(call.capability, device, &gpu.major, &gpu.minor);
  gpu.memory = memory_of(call, device);
  gpu.processes = processes_of(call, device);
  return gpu;
}

std::optional<Handle> find(const Functions& call, const std::string& pci_address) {
  Handle device = nullptr;
  if (!ok(call.by_address, pci_address.c_str(), &device)) return {};
  return device;
}

// nullptr: no driver, or one that does not answer.
const Functions* nvml() {
  static const Functions functions;
  static const bool answers = ok(functions.init);
  return answers ? &functions : nullptr;
}

}  // namespace

DriverProbe probe_driver() {
  DriverProbe probe;
  const Functions* call = nvml();
  if (call == nullptr) return probe;
  Text version{};
  if (ok(call->driver_version, version.data(), static_cast<unsigned>(version.size())))
    probe.version = version.data();
  ok(call->cuda_version, &probe.cuda);
  unsigned count = 0;
  ok(call->count, &count);
  for (unsigned i = 0; i < count; ++i) {
    Handle device = nullptr;
    if (ok(call->by_index, i, &device)) probe.gpus.push_back(describe(*call, device));
  }
  return probe;
}

std::optional<GpuProbe> probe_gpu(const std::string& pci_address) {
  const Functions* call = nvml();
  if (call == nullptr) return {};
  const auto device = find(*call, pci_address);
  if (!device) return {};
  return describe(*call, *device);
}

std::optional<NvmlMemory> gpu_memory(const std::string& pci_address) {
  const Functions* call = nvml();
  if (call == nullptr) return {};
  const auto device = find(*call, pci_address);
  return device ? memory_of(*call, *device) : std::nullopt;
}

GpuGauges gpu_gauges(const std::string& pci_address) {
  const Functions* call = nvml();
  const auto device = call == nullptr ? std::nullopt : find(*call, pci_address);
  GpuGauges gauges;
  if (!device) return gauges;
  Utilisation busy{};
  if (ok(call->utilisation, *device, &busy)) gauges.utilisation = busy.gpu;
  unsigned number = 0;
  if (ok(call->milliwatts, *device, &number)) gauges.watts = number / 1e3;
  if (ok(call->clock, *device, kClockOfMultiprocessors, &number)) gauges.clock_mhz = number;
  return gauges;
}

}  // namespace snug
