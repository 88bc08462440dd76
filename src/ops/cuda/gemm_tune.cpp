#include "ops/cuda/gemm_tune.h"

#include <algorithm>
#include <chrono>

#include "base/median.h"
#include "hal/cuda/event.h"

namespace snug::ops {
namespace {

constexpr int kCandidates = 24;
constexpr size_t kFinalists = 5;
constexpr double kQuickMs = 250;   // what the first look at all of them may take
constexpr double kBlockMs = 80;    // of one algorithm without a pause; 20 chose worse ones
constexpr double kHopeless = 1.1;  // times the best of the first look: no clock makes up for that

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

  // The best few, each for long enough that the clock settles where its own power lets it: what is
  // fastest for a millisecond need not be what is fastest all day. Twice, the second time in the
  // opposite order, so that none has the cooler device.
  TimedAlgorithm final_pass(std::vector<TimedAlgorithm> best) {
    best.resize(std::min(best.size(), kFinalists));
    std::erase_if(best, [limit = kHopeless * best[0].ms](const auto& b) { return b.ms > limit; });
    if (best.size() == 1) return best[0];
    sustained_ms(best[0]);
    std::vector<double> ms(best.size(), 0);
    for (size_t i = 0; i < best.size(); ++i) ms[i] += sustained_ms(best[i]);
    for (size_t i = best.size(); i-- > 0;) ms[i] += sustained_ms(best[i]);
    for (size_t i = 0; i < best.size(); ++i) best[i].ms = ms[i] / 2;
    return *std::ranges::min_element(best, {}, &TimedAlgorithm::ms);
  }

 private:
  // Of one launch among many, when the first half of them is over.
  double sustained_ms(const TimedAlgorithm& timed) {
    const auto launches = static_cast<size_t>(std::clamp(kBlockMs / timed.ms, 6.0, 400.0));
    std::vector<double> ms =
        cuda::times_ms(stream_, launches, [&](size_t) { launch(timed.algorithm); });
    ms.erase(ms.begin(), ms.begin() + static_cast<std::ptrdiff_t>(launches / 2));
    return median(std::move(ms));
  }

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
