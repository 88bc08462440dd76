#include "hal/cuda/arrival.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

namespace snug::cuda {
namespace {

using Clock = std::chrono::steady_clock;

class WordArrival final : public Arrival {
 public:
  WordArrival(std::shared_ptr<ArrivalWords> words, std::function<cudaStream_t(int32_t)> stream_of)
      : words_(std::move(words)), stream_of_(std::move(stream_of)), word_(words_->take()) {}
  ~WordArrival() override { words_->give_back(word_); }
  WordArrival(const WordArrival&) = delete;
  WordArrival& operator=(const WordArrival&) = delete;

  void record(int32_t lane) override {
    std::atomic_ref(*word_).store(0, std::memory_order_release);
    stream_ = stream_of_(lane);
    words_->set(word_, stream_);
  }

  // A device that failed sets no word; cudaStreamQuery reports it.
  void wait() override {
    constexpr auto kPause = std::chrono::microseconds(50);
    constexpr auto kAsk = std::chrono::seconds(2);
    for (Clock::time_point asked = Clock::now(); !is_set(); std::this_thread::sleep_for(kPause)) {
      if (Clock::now() - asked < kAsk) continue;
      asked = Clock::now();
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state != cudaErrorNotReady) check(state, "waiting for the device");
    }
  }

 private:
  bool is_set() const { return std::atomic_ref(*word_).load(std::memory_order_acquire) != 0; }

  std::shared_ptr<ArrivalWords> words_;
  std::function<cudaStream_t(int32_t)> stream_of_;
  uint32_t* word_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

ArrivalWords::ArrivalWords() {
  void* word = nullptr;
  check(cudaMalloc(&word, sizeof(uint32_t)), "allocating a word");
  set_ = static_cast<uint32_t*>(word);
  check(cudaMemset(word, 1, sizeof(uint32_t)), "setting a word");
  // Lanes do not wait for the stream that sets it, and it may be late: other processes have their turns.
  check(cudaStreamSynchronize(cudaStreamLegacy), "setting a word");
}

ArrivalWords::~ArrivalWords() {
  for (uint32_t* block : blocks_) cudaFreeHost(block);
  cudaFree(set_);
}

uint32_t* ArrivalWords::take() {
  constexpr size_t kBlock = 4096;
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, kBlock * sizeof(uint32_t), cudaHostAllocDefault), "pinning words");
    blocks_.push_back(static_cast<uint32_t*>(memory));
    for (size_t i = 0; i < kBlock; ++i) free_.push_back(blocks_.back() + i);
  }
  uint32_t* word = free_.back();
  free_.pop_back();
  return word;
}

void ArrivalWords::give_back(uint32_t* word) {
  const std::lock_guard lock(mutex_);
  free_.push_back(word);
}

void ArrivalWords::set(uint32_t* word, cudaStream_t stream) const {
  check(cudaMemcpyAsync(word, set_, sizeof(*word), cudaMemcpyDeviceToHost, stream),
        "saying that a stream came by");
}

std::unique_ptr<Arrival> make_arrival(std::shared_ptr<ArrivalWords> words,
                                      std::function<cudaStream_t(int32_t)> stream_of) {
  return std::make_unique<WordArrival>(std::move(words), std::move(stream_of));
}

}  // namespace snug::cuda
