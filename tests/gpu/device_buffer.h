// Device memory between canaries, without content at first. What it does is ordered by its stream.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "hal/cuda/cuda_error.h"
#include "ops/testing/guarded.h"

namespace snug {

class DeviceBuffer {
 public:
  DeviceBuffer(int64_t bytes, cudaStream_t stream)
      : size_(static_cast<size_t>(bytes)), stream_(stream) {
    cuda::check(cudaMalloc(&all_, size_ + 2 * kGuard), "allocating {} bytes", size_);
    set(all_, kCanary, kGuard);
    set(data() + size_, kCanary, kGuard);
  }
  ~DeviceBuffer() { cudaFree(all_); }
  DeviceBuffer(DeviceBuffer&& o) noexcept
      : all_(std::exchange(o.all_, nullptr)), size_(o.size_), stream_(o.stream_) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(all_) + kGuard; }
  size_t size() const { return size_; }

  void fill(std::byte value) { set(data(), value, size_); }
  void upload(const std::byte* from) { copy(data(), from, size_, cudaMemcpyHostToDevice); }
  // These two wait for the stream.
  void download(std::byte* to) const {
    copy(to, data(), size_, cudaMemcpyDeviceToHost);
    cuda::check(cudaStreamSynchronize(stream_), "reading {} bytes", size_);
  }
  bool intact() const {
    std::array<std::byte, 2 * kGuard> guards;
    copy(guards.data(), all_, kGuard, cudaMemcpyDeviceToHost);
    copy(guards.data() + kGuard, data() + size_, kGuard, cudaMemcpyDeviceToHost);
    cuda::check(cudaStreamSynchronize(stream_), "reading guards");
    return std::ranges::all_of(guards, [](std::byte b) { return b == kCanary; });
  }

 private:
  void set(void* to, std::byte value, size_t bytes) const {
    cuda::check(cudaMemsetAsync(to, static_cast<int>(value), bytes, stream_), "filling memory");
  }
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const {
    cuda::check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "copying {} bytes", bytes);
  }

  void* all_ = nullptr;
  size_t size_;
  cudaStream_t stream_;
};

}  // namespace snug
