// What nvidia-smi shows, from the library it asks: NVML comes with the driver and needs no CUDA
// toolkit, context or device memory. Nothing here throws; what the driver does not tell is empty.
//
//   for (const GpuProbe& gpu : probe_driver().gpus) fmt::print("{}\n", gpu.name);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace snug {

struct GpuProcess {
  int64_t pid = 0;
  std::string name;
  std::optional<int64_t> bytes;  // none: the driver does not tell (in containers)
};

struct NvmlMemory {
  int64_t total = 0, used = 0, free = 0;
};

struct GpuProbe {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  // 0: not known, as from NVML.
  int multiprocessors = 0;
  int threads = 0;              // that a multiprocessor holds at once
  int64_t shared_of_block = 0;  // bytes of shared memory that a block can have
  std::optional<NvmlMemory> memory;
  std::vector<GpuProcess> processes;
};

struct DriverProbe {
  std::string version;         // "580.159.04"; empty: there is no driver, or it does not answer
  int cuda = 0;                // the newest CUDA that it supports: 13000 for 13.0
  std::vector<GpuProbe> gpus;  // every one in the machine
};
DriverProbe probe_driver();

// Of the whole GPU, now; what the driver does not tell is empty.
struct GpuGauges {
  std::optional<double> utilisation;  // percent of the last moments in which a kernel ran
  std::optional<double> watts;
  std::optional<double> clock_mhz;  // of the multiprocessors
};

// By PCI address ("0000:03:00.0"), which CUDA and NVML both know: they number GPUs differently.
std::optional<GpuProbe> probe_gpu(const std::string& pci_address);
std::optional<NvmlMemory> gpu_memory(const std::string& pci_address);
GpuGauges gpu_gauges(const std::string& pci_address);

}  // namespace snug
