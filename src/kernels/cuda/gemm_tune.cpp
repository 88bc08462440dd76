#include "kernels/cuda/gemm_tune.h"

#include <algorithm>
#include <chrono>

#include "hal/cuda/event.h"

namespace snug::ops {
namespace {

constexpr int kCandidates = 24;  // cuBLASLt 13 names 8, whatever is asked for
constexpr size_t kFinalists = 4;
constexpr int kRounds = 4;
constexpr double kQuickMs = 250;  // what a quick autotune may take
constexpr double kBlockMs = 120;  // of one algorithm without a pause

// Of one launch among many, when the first third of them is over.
template <typename Launch>
double block_ms(cudaStream_t stream, double about_ms, const Launch& launch) {
  const auto launches = static_cast<size_t>(std::clamp(kBlockMs / about_ms, 6.0, 2000.0));
  const std::vector<double> ms = cuda::times_ms(stream, launches, [&](size_t) { launch(); });
  const size_t warm = launches / 3;
  double sum = 0;
  for (size_t i = warm; i < launches; ++i) sum += ms[i];
  return sum / static_cast<double>(launches - warm);
}

class Tuning {
 public:
  Tuning(GemmPlan& plan, const CudaGemm& p, void* stream)
      : plan_(plan), p_(p), stream_(static_cast<cudaStream_t>(stream)) {}

  // Times the candidates, the likeliest first: two launches to warm up, three timed. All of them
  // unless quick.
  std::vector<TimedAlgorithm> quick_pass(bool quick) {
    std::vector<TimedAlgorithm> timed;
    const auto begin = std::chrono::steady_clock::now();
    for (const cublasLtMatmulAlgo_t& algorithm : plan_.candidates(kCandidates)) {
      const std::chrono::duration<double, std::milli> spent =
          std::chrono::steady_clock::now() - begin;
      if (quick && timed.size() >= kFinalists && spent.count() > kQuickMs) break;
      if (!launch(algorithm)) continue;
      const std::vector<double> ms = cuda::times_ms(stream_, 4, [&](size_t) { launch(algorithm); });
      timed.push_back({algorithm, *std::min_element(ms.begin() + 1, ms.end())});
    }
    std::ranges::stable_sort(timed, {}, &TimedAlgorithm::ms);
    return timed;
  }

  // Large GEMMs are bound by the device's power: the clock settles where an algorithm's own
  // appetite lets it, so what is fastest for a millisecond need not be what is fastest all day.
  // Each runs alone for long enough to settle, and the best of them again in both orders, for the
  // clock wanders by two per cent. (Launched in turn they share a clock, which hides their effect:
  // the 1.5B was 1.3 % slower with what that chose.)
  TimedAlgorithm final_pass(std::vector<TimedAlgorithm> timed) {
    sustained_ms(timed[0]);
    for (TimedAlgorithm& t : timed) t.ms = sustained_ms(t);
    std::ranges::stable_sort(timed, {}, &TimedAlgorithm::ms);
    timed.resize(std::min(timed.size(), kFinalists));
    std::vector<double> sums;
    for (const TimedAlgorithm& t : timed) sums.push_back(t.ms);
    for (int round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < timed.size(); ++i) {
        const size_t at = round % 2 == 0 ? timed.size() - 1 - i : i;
        sums[at] += sustained_ms(timed[at]);
      }
    }
    for (size_t i = 0; i < timed.size(); ++i) timed[i].ms = sums[i] / (kRounds + 1);
    return *std::ranges::min_element(timed, {}, &TimedAlgorithm::ms);
  }

 private:
  double sustained_ms(const TimedAlgorithm& timed) {
    return block_ms(stream_, timed.ms, [&] { launch(timed.algorithm); });
  }

  bool launch(const cublasLtMatmulAlgo_t& algorithm) {
    return plan_.run(p_, algorithm, stream_) == CUBLAS_STATUS_SUCCESS;
  }

  GemmPlan& plan_;
  const CudaGemm& p_;
  cudaStream_t stream_;
};

}  // namespace

std::optional<TimedAlgorithm> fastest_algorithm(GemmPlan& plan, const CudaGemm& p, bool quick,
                                                void* stream) {
  Tuning tuning(plan, p, stream);
  std::vector<TimedAlgorithm> timed = tuning.quick_pass(quick);
  if (timed.empty()) return std::nullopt;
  if (quick) return timed.front();
  return tuning.final_pass(std::move(timed));
}

std::pair<double, double> compare_sustained_ms(const std::function<void()>& one,
                                               const std::function<void()>& other, double about_ms,
                                               void* stream) {
  auto* const cuda_stream = static_cast<cudaStream_t>(stream);
  std::pair<double, double> sums{0, 0};
  for (int round = 0; round < kRounds; ++round) {
    const auto time_one = [&] { sums.first += block_ms(cuda_stream, about_ms, one); };
    if (round % 2 == 0) time_one();
    sums.second += block_ms(cuda_stream, about_ms, other);
    if (round % 2 != 0) time_one();
  }
  return {sums.first / kRounds, sums.second / kRounds};
}

}  // namespace snug::ops
