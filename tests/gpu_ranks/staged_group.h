// A group whose calls work on device memory, used on host memory: what goes in is copied up, what
// comes out is copied down. So that checks for host memory hold for it too.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace snug {

class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes);
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  std::byte* get() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class StagedGroup final : public Communicator {
 public:
  // Of at most so many bytes in a call.
  StagedGroup(Communicator& inner, int64_t bytes);
  ~StagedGroup() override;

  std::string_view engine() const override { return inner_.engine(); }
  int rank() const override { return inner_.rank(); }
  int ranks() const override { return inner_.ranks(); }

  void all_gather(std::span<const std::byte> mine, std::byte* all, void*) override;
  void all_to_all(const std::byte* from, std::byte* to, int64_t block, void*) override;
  void broadcast(std::span<std::byte> bytes, int root, void*) override;
  void send(std::span<const std::byte> bytes, int to, void*) override;
  void receive(std::span<std::byte> bytes, int from, void*) override;
  void barrier() override { inner_.barrier(); }
  void begin_group() override;
  void end_group() override;
  void abort(std::string_view why) override { inner_.abort(why); }

 private:
  std::byte* up(const std::byte* from, int64_t bytes, std::byte* to);
  void down(std::byte* to, const std::byte* from, int64_t bytes);
  void down_unless_grouped();

  struct Copy {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };
  Communicator& inner_;
  DeviceBytes in_, out_;
  cudaStream_t stream_ = nullptr;
  std::vector<Copy> copies_;  // when all that was enqueued has ended
  bool grouped_ = false;
};

}  // namespace snug
