#include "hal/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "base/units.h"
#include "hal/cuda/arena.h"
#include "hal/cuda/arrival.h"
#include "hal/cuda/event.h"
#include "hal/cuda/pinned_arena.h"
#include "hal/cuda/probe.h"

namespace snug {
namespace {

using cuda::check;
using cuda::Event;

// Host memory that the device copies from and to by itself.
class Pinned {
 public:
  explicit Pinned(size_t bytes) {
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, cudaHostAllocMapped), "pinning {} bytes of host memory",
          bytes);
    bytes_ = {static_cast<std::byte*>(data), bytes};
  }
  ~Pinned() { cudaFreeHost(bytes_.data()); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

// The streams of the lanes; none waits for the default stream, nor it for them.
class Streams {
 public:
  Streams() { (*this)[0]; }
  ~Streams() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t operator[](int32_t lane) {
    while (std::cmp_less_equal(streams_.size(), lane)) {
      cudaStream_t stream = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
      streams_.push_back(stream);
    }
    return streams_[static_cast<size_t>(lane)];
  }
  void synchronise() const {
    for (cudaStream_t stream : streams_)
      check(cudaStreamSynchronize(stream), "waiting for the device");
  }

 private:
  std::vector<cudaStream_t> streams_;
};

class StreamEvent final : public LaneEvent {
 public:
  explicit StreamEvent(Streams& streams) : streams_(streams) {}
  void record(int32_t lane) override { event_.record(streams_[lane]); }
  void wait(int32_t lane) override { event_.wait_on(streams_[lane]); }

 private:
  Streams& streams_;
  Event event_{cudaEventDisableTiming};
};

class StreamStamp final : public Stamp {
 public:
  explicit StreamStamp(Streams& streams) : streams_(streams) {}
  void record(int32_t lane) override { event_.record_here(streams_[lane]); }
  double seconds_since(const Stamp& earlier) const override {
    return event_.ms_since(dynamic_cast<const StreamStamp&>(earlier).event_) / 1e3;
  }

 private:
  Streams& streams_;
  Event event_;
};

// What goes up passes through slots of pinned memory in turn: the host fills one while the device
// copies from another, and neither waits for the step that is running.
class UploadRing {
 public:
  void upload(std::byte* to, std::span<const std::byte> from, cudaStream_t stream) {
    while (!from.empty()) {
      Slot& slot = slots_[next_++ % kSlots];
      if (slot.used) slot.copied.wait();
      slot.used = true;
      const size_t n = std::min(from.size(), slot.memory.bytes().size());
      std::memcpy(slot.memory.bytes().data(), from.data(), n);
      check(cudaMemcpyAsync(to, slot.memory.bytes().data(), n, cudaMemcpyHostToDevice, stream),
            "copying {} bytes to the device", n);
      slot.copied.record(stream);
      to += n;
      from = from.subspan(n);
    }
  }

 private:
  static constexpr size_t kSlots = 32;  // several micro-batches' inputs
  static constexpr size_t kSlotBytes = static_cast<size_t>(CudaDevice::kUploadBytes) / kSlots;
  struct Slot {
    Pinned memory{kSlotBytes};
    Event copied{cudaEventDisableTiming};
    bool used = false;
  };
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

class CudaMemory final : public Memory {
 public:
  CudaMemory(int64_t bytes, cudaStream_t stream, int64_t& held)
      : bytes_(bytes), stream_(stream), held_(held) {
    void* end = nullptr;
    check(cudaMalloc(&end, sizeof(*end_)), "allocating a counter");
    end_ = static_cast<unsigned long long*>(end);
    void* data = nullptr;
    const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    if (cudaMalloc(&data, size) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // not sticky: the caller may plan again
      cudaFree(end_);
      throw does_not_fit("the driver refuses an arena of {} ({} bytes)", format_bytes(bytes),
                         format_exact(bytes))
          .hint("another process may have taken memory since: nvidia-smi shows which");
    }
    data_ = static_cast<std::byte*>(data);
    held_ += bytes_;
    reset();
  }
  ~CudaMemory() override {
    cudaFree(end_);
    cudaFree(data_);
    held_ -= bytes_;
  }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }
  int64_t high_water_mark() const override {
    for (int64_t last = bytes_; last > 0;) {  // what is looked for is near the top, as a rule
      const int64_t first = std::max<int64_t>(0, (last - 1) / kPart * kPart);
      if (const int64_t end = last_written(first, last); end > 0) return first + end;
      last = first;
    }
    return 0;
  }
  void reset() override {
    check(cudaMemsetAsync(data_, cuda::kPattern, static_cast<size_t>(bytes_), stream_),
          "filling the arena");
  }

 private:
  static constexpr int64_t kPart = int64_t{1} << 28;

  int64_t last_written(int64_t first, int64_t last) const {
    unsigned long long end = 0;
    cuda::find_end(data_ + first, last - first, end_, stream_);
    check(cudaMemcpyAsync(&end, end_, sizeof(end), cudaMemcpyDeviceToHost, stream_),
          "reading a counter");
    check(cudaStreamSynchronize(stream_), "looking through the arena");
    return static_cast<int64_t>(end);
  }

  int64_t bytes_;
  cudaStream_t stream_;
  int64_t& held_;
  std::byte* data_ = nullptr;
  unsigned long long* end_ = nullptr;
};

class Graph final : public Recording {
 public:
  Graph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "making a graph executable");
    check(cudaGraphUpload(graph_, stream_), "uploading a graph");
  }
  ~Graph() override { cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch() override { check(cudaGraphLaunch(graph_, stream_), "launching a graph"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
};

// Pinned blocks to use again: making and freeing them can wait for the device.
class PinnedPool {
 public:
  std::unique_ptr<Pinned> take(size_t bytes) {
    const auto found = std::ranges::find_if(
        free_, [&](const auto& block) { return block->bytes().size() >= bytes; });
    if (found == free_.end()) return std::make_unique<Pinned>(bytes);
    std::unique_ptr<Pinned> block = std::move(*found);
    free_.erase(found);
    return block;
  }
  void give(std::unique_ptr<Pinned> block) { free_.push_back(std::move(block)); }

 private:
  std::vector<std::unique_ptr<Pinned>> free_;
};

class PinnedReading final : public Reading {
 public:
  PinnedReading(std::span<const Device::Piece> pieces, std::shared_ptr<PinnedPool> pool,
                cudaStream_t stream)
      : pool_(std::move(pool)), memory_(pool_->take(total(pieces))) {
    size_t at = 0;
    for (const Device::Piece& piece : pieces) {
      places_.push_back(memory_->bytes().subspan(at, piece.size()));
      check(cudaMemcpyAsync(places_.back().data(), piece.data(), piece.size(), cudaMemcpyDefault,
                            stream),
            "copying {} bytes to the host", piece.size());
      at += round_up(static_cast<int64_t>(piece.size()), 16);
    }
    arrived_.record(stream);
  }
  ~PinnedReading() override { pool_->give(std::move(memory_)); }
  PinnedReading(const PinnedReading&) = delete;
  PinnedReading& operator=(const PinnedReading&) = delete;

  std::span<const std::byte> piece(size_t i) override {
    arrived_.wait();
    return places_.at(i);
  }
  double seconds_since(const Reading& earlier) const override {
    const Event& then = dynamic_cast<const PinnedReading&>(earlier).arrived_;
    then.wait();
    arrived_.wait();
    return arrived_.ms_since(then) / 1e3;
  }

 private:
  static size_t total(std::span<const Device::Piece> pieces) {
    int64_t sum = 16;
    for (const Device::Piece& piece : pieces)
      sum += round_up(static_cast<int64_t>(piece.size()), 16);
    return static_cast<size_t>(sum);
  }
  std::shared_ptr<PinnedPool> pool_;
  std::unique_ptr<Pinned> memory_;
  Event arrived_;
  std::vector<std::span<std::byte>> places_;
};

class CudaDeviceImpl final : public CudaDevice {
 public:
  explicit CudaDeviceImpl(int ordinal) : ordinal_(ordinal) {
    if (const std::string why = why_no_cuda(); !why.empty())
      throw device_error("{}", why).hint("`snug doctor` says what is there and what is missing");
    used_before_ = used_before_this_process(ordinal);
    check(cudaSetDevice(ordinal), "choosing GPU {}", ordinal);
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "asking GPU {} what it is", ordinal);
    name_ = properties.name;
    if (!features_of(10 * properties.major + properties.minor).supported) {
      throw device_error("{} has compute capability {}.{}: the kernels need {}.{} or newer", name_,
                         properties.major, properties.minor, kOldestCapability / 10,
                         kOldestCapability % 10);
    }
    streams_ = std::make_unique<Streams>();
    stream_ = (*streams_)[0];
    ring_ = std::make_unique<UploadRing>();
    mark_memory_ = std::make_unique<Pinned>(sizeof(int32_t));
    mark_value() = -1;
  }
  CudaDeviceImpl(const CudaDeviceImpl&) = delete;
  CudaDeviceImpl& operator=(const CudaDeviceImpl&) = delete;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string_view name() const override { return name_; }

  std::unique_ptr<Memory> allocate(int64_t bytes) override {
    const GpuMemory now = memory();
    const int64_t libraries = context_to_come();
    if (bytes + libraries > now.free) {
      throw does_not_fit(
          "an arena of {} ({} bytes) does not fit: {} has {} free of {}, of which libraries take "
          "{}",
          format_bytes(bytes), format_exact(bytes), name_, format_bytes(now.free),
          format_bytes(now.total), format_bytes(libraries))
          .hint("--budget plans inside less; nvidia-smi shows which other processes hold memory");
    }
    return std::make_unique<CudaMemory>(bytes, stream_, held_);
  }
  std::unique_ptr<Memory> allocate_host(int64_t bytes) override {
    return cuda::pinned_arena(bytes);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    ring_->upload(to, from, stream_);
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, stream_),
          "copying {} bytes to the host", to.size());
    check(cudaStreamSynchronize(stream_), "waiting for the device");
  }
  std::unique_ptr<Reading> read_later(std::span<const Piece> pieces) override {
    return std::make_unique<PinnedReading>(pieces, pool_, stream_);
  }
  void fill(std::span<std::byte> bytes, uint8_t value) override {
    check(cudaMemsetAsync(bytes.data(), value, bytes.size(), stream_), "filling {} bytes",
          bytes.size());
  }

  void* stream() const override { return stream_; }
  void synchronise() override { streams_->synchronise(); }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording");
    cudaGraph_t graph = nullptr;
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(stream_, &graph), "ending a recording");
    return std::make_unique<Graph>(graph, stream_);
  }
  void fill_noise(std::span<std::byte> bytes) override {
    cuda::fill_noise(bytes.data(), static_cast<int64_t>(bytes.size()), stream_);
  }
  void mark(int32_t value) override {
    void* device = nullptr;
    check(cudaHostGetDevicePointer(&device, mark_memory_->bytes().data(), 0), "finding the mark");
    cuda::write_mark(static_cast<int32_t*>(device), value, stream_);
  }
  int32_t last_mark() const override { return mark_value(); }

  void* lane_stream(int32_t lane) override { return (*streams_)[lane]; }
  std::unique_ptr<LaneEvent> make_event() override {
    return std::make_unique<StreamEvent>(*streams_);
  }
  std::unique_ptr<Stamp> make_stamp() override { return std::make_unique<StreamStamp>(*streams_); }
  std::unique_ptr<Arrival> make_arrival() override {
    if (!arrival_words_) arrival_words_ = std::make_shared<cuda::ArrivalWords>();
    return cuda::make_arrival(arrival_words_, [this](int32_t lane) { return (*streams_)[lane]; });
  }
  void copy(std::span<std::byte> to, const std::byte* from, int32_t lane) override {
    check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDefault, (*streams_)[lane]),
          "copying {} bytes", to.size());
  }
  void call(const std::function<void()>& work, int32_t lane) override {
    const auto run = [](void* closure) { (*static_cast<const std::function<void()>*>(closure))(); };
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the driver takes any pointer
    void* closure = const_cast<std::function<void()>*>(&work);
    check(cudaLaunchHostFunc((*streams_)[lane], run, closure), "calling the host");
  }
  void delay(int32_t lane, double microseconds) override {
    cuda::wait_on_device(microseconds, (*streams_)[lane]);
  }

  GpuMemory memory() const override {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }
  // Of this process alone, where that is told: others may come after it.
  int64_t context_bytes() const override {
    if (const auto mine = gpu_bytes_of_this_process(ordinal_))
      return std::max<int64_t>(0, *mine - held_);
    const std::optional<int64_t> used = gpu_used_bytes(ordinal_);
    return used ? std::max<int64_t>(0, *used - used_before_ - held_) : 0;
  }

 private:
  // What is opened and loaded after the arena: cuBLASLt, cuDNN, kernels, graphs. So an arena is
  // taken where this process can have what its plan counts. A driver that has taken all of it by
  // then needs some more nevertheless.
  int64_t context_to_come() const {
    constexpr int64_t kWhereNothingTells = int64_t{96} << 20, kLeast = int64_t{32} << 20;
    if (!gpu_used_bytes(ordinal_)) return kWhereNothingTells;
    return std::max(kLeast, kContextBytes - context_bytes());
  }

  // Asked when the process opens its first device: what comes after it is its own.
  static int64_t used_before_this_process(int ordinal) {
    static std::map<int, int64_t> first;
    return first.try_emplace(ordinal, gpu_used_bytes(ordinal).value_or(0)).first->second;
  }

  volatile int32_t& mark_value() const {
    return *reinterpret_cast<volatile int32_t*>(mark_memory_->bytes().data());
  }

  int ordinal_;
  int64_t used_before_ = 0;
  int64_t held_ = 0;  // in arenas
  std::string name_;
  std::unique_ptr<Streams> streams_;
  cudaStream_t stream_ = nullptr;  // lane 0's
  std::unique_ptr<UploadRing> ring_;
  std::shared_ptr<PinnedPool> pool_ = std::make_shared<PinnedPool>();
  std::unique_ptr<Pinned> mark_memory_;
  std::shared_ptr<cuda::ArrivalWords> arrival_words_;  // made on first use
};

}  // namespace

std::unique_ptr<CudaDevice> cuda_device(int ordinal) {
  return std::make_unique<CudaDeviceImpl>(ordinal);
}

}  // namespace snug
