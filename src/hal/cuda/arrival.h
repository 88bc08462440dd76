// Points in the work of a stream that threads of the host wait for without a call of the driver:
// such calls wait for each other, and a thread that launches a step is in one for most of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "hal/cuda/cuda_error.h"
#include "hal/device.h"

namespace snug::cuda {

// Words of pinned memory that a stream sets when it gets there.
class ArrivalWords {
 public:
  ArrivalWords();
  ~ArrivalWords();
  ArrivalWords(const ArrivalWords&) = delete;
  ArrivalWords& operator=(const ArrivalWords&) = delete;

  uint32_t* take();
  void give_back(uint32_t* word);  // no stream is to set it any more
  void set(uint32_t* word, cudaStream_t stream) const;

 private:
  std::mutex mutex_;
  std::vector<uint32_t*> blocks_, free_;
  uint32_t* set_ = nullptr;  // on the device: what a word is set to
};

// `stream_of` finds a lane's stream.
std::unique_ptr<Arrival> make_arrival(std::shared_ptr<ArrivalWords> words,
                                      std::function<cudaStream_t(int32_t)> stream_of);

}  // namespace snug::cuda
