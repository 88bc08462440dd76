#include "ops/cuda/gemm_tune.h"

#include <algorithm>
#include <chrono>

#include "base/median.h"
#include "hal/cuda/event.h"

namespace snug::ops {
namespace {

constexpr int kCandidates = 24;
constexpr size_t kFinalists = 6;
constexpr double kQuickMs = 250, kFinalMs = 150;  // what each pass may take

class Tuning {
 public:
  Tuning(GemmPlan& plan, const CudaGemm& p, void* stream)
      : plan_(plan), p_(p), stream_(static_cast<cudaStream_t>(stream)) {}

  // A short look at every candidate, the likeliest first: two launches to warm up, three timed.
  std::vector<TimedAlgorithm> quick_pass() {
    std::vector<TimedAlgorithm> timed;
    const auto begin = std::chrono::steady_clock::now();
    for (const cublasLtMatmulAlgo_t& algorithm : plan_.candidates(kCandidates)) {
      const std::chrono::duration<double, std::milli> spent =
          std::chrono::steady_clock::now() - begin;
      if (timed.size() >= kFinalists && spent.count() > kQuickMs) break;
      if (!launch(algorithm)) continue;
      const std::vector<double> ms = cuda::times_ms(stream_, 4, [&](size_t) { launch(algorithm); });
      timed.push_back({algorithm, *std::min_element(ms.begin() + 1, ms.end())});
    }
    std::ranges::stable_sort(timed, {}, &TimedAlgorithm::ms);
    return timed;
  }

  // The best few in turn, so that each meets the same clocks; the median counts. (Each alone for as
  // long as its own power takes to settle the clock, 20 to 80 ms, chose no better ones.)
  TimedAlgorithm final_pass(std::vector<TimedAlgorithm> best) {
    best.resize(std::min(best.size(), kFinalists));
    double round = 0;
    for (const TimedAlgorithm& b : best) round += b.ms;
    const auto rounds = static_cast<size_t>(std::clamp(kFinalMs / round, 3.0, 10.0));
    const std::vector<double> ms = cuda::times_ms(
        stream_, rounds * best.size(), [&](size_t i) { launch(best[i % best.size()].algorithm); });
    for (size_t b = 0; b < best.size(); ++b) {
      std::vector<double> own;
      for (size_t i = b; i < ms.size(); i += best.size()) own.push_back(ms[i]);
      best[b].ms = median(std::move(own));
    }
    return *std::ranges::min_element(best, {}, &TimedAlgorithm::ms);
  }

 private:
  bool launch(const cublasLtMatmulAlgo_t& algorithm) {
    return plan_.run(p_, algorithm, stream_) == CUBLAS_STATUS_SUCCESS;
  }

  GemmPlan& plan_;
  const CudaGemm& p_;
  cudaStream_t stream_;
};

}  // namespace

std::optional<TimedAlgorithm> fastest_algorithm(GemmPlan& plan, const CudaGemm& p, bool hasty,
                                                void* stream) {
  Tuning tuning(plan, p, stream);
  std::vector<TimedAlgorithm> timed = tuning.quick_pass();
  if (timed.empty()) return std::nullopt;
  if (hasty) return timed.front();
  return tuning.final_pass(std::move(timed));
}

}  // namespace snug::ops
