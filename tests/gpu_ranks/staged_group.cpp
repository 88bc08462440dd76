#include "gpu_ranks/staged_group.h"

#include "hal/cuda/cuda_error.h"

namespace snug {

DeviceBytes::DeviceBytes(size_t bytes) {
  cuda::check(cudaMalloc(&data_, bytes), "allocating {} bytes", bytes);
}

StagedGroup::StagedGroup(Communicator& inner, int64_t bytes)
    : inner_(inner), in_(static_cast<size_t>(bytes)), out_(static_cast<size_t>(bytes)) {
  cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

StagedGroup::~StagedGroup() { cudaStreamDestroy(stream_); }

std::byte* StagedGroup::up(const std::byte* from, int64_t bytes, std::byte* to) {
  cuda::check(
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_),
      "copying up");
  return to;
}

void StagedGroup::down(std::byte* to, const std::byte* from, int64_t bytes) {
  copies_.push_back({to, from, static_cast<size_t>(bytes)});
  down_unless_grouped();
}

void StagedGroup::down_unless_grouped() {
  if (grouped_) return;
  for (const Copy& copy : copies_) {
    cuda::check(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDeviceToHost, stream_),
                "copying down");
  }
  copies_.clear();
  cuda::check(cudaStreamSynchronize(stream_), "waiting");
}

void StagedGroup::all_gather(std::span<const std::byte> mine, std::byte* all, void*) {
  const auto bytes = static_cast<int64_t>(mine.size());
  const bool in_place = mine.data() == all + rank() * bytes;
  std::byte* from = up(mine.data(), bytes, in_place ? out_.get() + rank() * bytes : in_.get());
  inner_.all_gather({from, mine.size()}, out_.get(), stream_);
  down(all, out_.get(), ranks() * bytes);
}

void StagedGroup::all_to_all(const std::byte* from, std::byte* to, int64_t block, void*) {
  inner_.all_to_all(up(from, ranks() * block, in_.get()), out_.get(), block, stream_);
  down(to, out_.get(), ranks() * block);
}

void StagedGroup::broadcast(std::span<std::byte> bytes, int root, void*) {
  const auto size = static_cast<int64_t>(bytes.size());
  inner_.broadcast({up(bytes.data(), size, in_.get()), bytes.size()}, root, stream_);
  down(bytes.data(), in_.get(), size);
}

void StagedGroup::send(std::span<const std::byte> bytes, int to, void*) {
  up(bytes.data(), static_cast<int64_t>(bytes.size()), in_.get());
  inner_.send({in_.get(), bytes.size()}, to, stream_);
  down_unless_grouped();
}

void StagedGroup::receive(std::span<std::byte> bytes, int from, void*) {
  inner_.receive({out_.get(), bytes.size()}, from, stream_);
  down(bytes.data(), out_.get(), static_cast<int64_t>(bytes.size()));
}

void StagedGroup::begin_group() {
  grouped_ = true;
  inner_.begin_group();
}

void StagedGroup::end_group() {
  inner_.end_group();
  grouped_ = false;
  down_unless_grouped();
}

}  // namespace snug
