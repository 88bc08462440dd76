// Whether what CUDA and the driver say leaves a GPU to use, in a sentence: apart from the asking,
// so that every answer can be tried.
//
//   why_unusable({.gpus = 1}) == ""
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

namespace snug {

// "13.0" for 13000.
inline std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

struct CudaAnswers {
  enum class Start : uint8_t { works, driver_too_old, no_gpu, fails } start = Start::works;
  int gpus = 0;
  int driver = 0;                      // the newest CUDA that it supports; 0: none answers
  int toolkit = 0;                     // what the build needs
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES, where it is set
  std::string failure;                 // CUDA's own words, where it fails
};

inline std::string why_unusable(const CudaAnswers& a) {
  using Start = CudaAnswers::Start;
  if (a.gpus > 0) return "";
  if (a.driver == 0) return "no NVIDIA driver answers on this machine";
  if (a.start == Start::driver_too_old) {
    return fmt::format("the NVIDIA driver is too old: it supports CUDA {}, this build needs {}",
                       cuda_version_text(a.driver), cuda_version_text(a.toolkit));
  }
  if (a.visible) return fmt::format("CUDA_VISIBLE_DEVICES='{}' leaves no GPU to use", *a.visible);
  if (a.start == Start::fails) return fmt::format("CUDA does not start: {}", a.failure);
  return "the NVIDIA driver finds no GPU";
}

}  // namespace snug
