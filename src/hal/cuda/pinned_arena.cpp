#include "hal/cuda/pinned_arena.h"

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "base/units.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cpu/guarded_memory.h"
#include "hal/cpu/memory_limit.h"
#include "hal/cuda/pinning.h"
#include "hal/disk_file.h"

namespace snug::cuda {
namespace {

std::unique_ptr<GuardedMemory> mapped(int64_t bytes) {
  const int64_t available = available_memory_bytes();
  if (bytes > available) {
    throw does_not_fit(
        "a host arena of {} ({} bytes) does not fit: this machine has {} of memory available",
        format_bytes(bytes), format_exact(bytes), format_bytes(available))
        .hint(fmt::format("--host-budget {}MiB plans inside that; a container's memory limit "
                          "(cgroup) counts too",
                          available >> 20));
  }
  try {
    return std::make_unique<GuardedMemory>(bytes, DiskFile::kGrain);
  } catch (const Error& e) {
    throw Error(e.code(), e.what()).hint(what_helps_to_pin(bytes, lockable_bytes()));
  }
}

// One registration, so that no copy crosses two: such a copy is refused. Drivers from 580 on take
// less than 512 GiB in one.
class PinnedArena final : public Memory {
 public:
  explicit PinnedArena(int64_t bytes) : memory_(mapped(bytes)) {
    const std::span<std::byte> pages = memory_->pages();
    const cudaError_t status =
        cudaHostRegister(pages.data(), pages.size(), cudaHostRegisterDefault);
    if (status == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());  // not sticky: the caller may plan again
    throw does_not_fit("the driver does not pin a host arena of {} ({} bytes): {} ({})",
                       format_bytes(bytes), format_exact(bytes), cudaGetErrorString(status),
                       cudaGetErrorName(status))
        .hint(what_helps_to_pin(bytes, lockable_bytes()));
  }
  ~PinnedArena() override {
    cudaDeviceSynchronize();  // copies may be under way
    cudaHostUnregister(memory_->pages().data());
  }
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  std::byte* data() const override { return memory_->data(); }
  int64_t bytes() const override { return memory_->bytes(); }
  int64_t high_water_mark() const override {
    cudaDeviceSynchronize();  // the next wait for the device reports a failure
    return memory_->high_water_mark();
  }

 private:
  std::unique_ptr<GuardedMemory> memory_;
};

}  // namespace

std::unique_ptr<Memory> pinned_arena(int64_t bytes) { return std::make_unique<PinnedArena>(bytes); }

}  // namespace snug::cuda
