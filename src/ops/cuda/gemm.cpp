#include "ops/cuda/gemm.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "base/log.h"
#include "hal/cuda/cuda_error.h"
#include "ops/cuda/gemm_cache.h"
#include "ops/cuda/gemm_plain.h"
#include "ops/cuda/gemm_plan.h"
#include "ops/cuda/gemm_tune.h"

namespace snug::ops {
namespace {

bool tuning_is_off() {
  const char* value = std::getenv("SNUG_NO_TUNE");
  return value != nullptr && std::string_view(value) == "1";
}

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties = {};
  cuda::check(cudaGetDevice(&device), "asking for the device");
  cuda::check(cudaGetDeviceProperties(&properties, device), "asking for the device's name");
  return properties.name;
}

// A product with the algorithm that serves it; with none, our own plain kernel does.
struct Served {
  GemmPlan plan;
  std::optional<cublasLtMatmulAlgo_t> algorithm = {};
  std::optional<double> ms = {};
  bool prepared = false;
  bool hasty = false;  // after a short look: a longer one may come
};

// The products that this process has met. One lock: a step is a graph, so nobody waits for it.
class Products {
 public:
  void prepare(const CudaGemm& p, const Math& math, void* stream) {
    const std::lock_guard lock(mutex_);
    const GemmKey key = GemmKey::of(p, math);
    Served& served = at(key, p);
    if (served.prepared && (math.hasty || !served.hasty)) return;
    const bool large = is_large_gemm(p.m, p.n, p.k);
    if (large && !served.algorithm)
      log("cuBLASLt takes no product {}: a plain kernel makes it, slowly", key.text());
    if (large && served.algorithm && !math.deterministic && !tuning_is_off())
      choose_fastest(key, served, p, math.hasty, stream);
    run(key, served, p, stream);  // loads its code, which must not happen while a graph is captured
    served.prepared = true;
  }

  void run(const CudaGemm& p, const Math& math, void* stream) {
    const std::lock_guard lock(mutex_);
    const GemmKey key = GemmKey::of(p, math);
    run(key, at(key, p), p, stream);
  }

  std::optional<double> ms(const CudaGemm& p, const Math& math) {
    const std::lock_guard lock(mutex_);
    const auto found = served_.find(GemmKey::of(p, math));
    return found == served_.end() ? std::nullopt : found->second.ms;
  }

 private:
  // By rule: the heuristic's first.
  Served& at(const GemmKey& key, const CudaGemm& p) {
    const auto found = served_.find(key);
    if (found != served_.end()) return found->second;
    Served served{.plan = GemmPlan(key, p)};
    const std::vector<cublasLtMatmulAlgo_t> first = served.plan.candidates(1);
    if (!first.empty()) served.algorithm = first[0];
    return served_.emplace(key, std::move(served)).first->second;
  }

  void choose_fastest(const GemmKey& key, Served& served, const CudaGemm& p, bool hasty,
                      void* stream) {
    served.hasty = false;
    if (remember(key, served)) return;
    served.hasty = hasty;
    if (!hasty && !told_) {
      const std::string path = cache().path().string();
      log("timing matrix products on this GPU, about three seconds each, once{}",
          path.empty() ? "" : "; kept in " + path);
      told_ = true;
    }
    const std::optional<TimedAlgorithm> best = fastest_algorithm(served.plan, p, hasty, stream);
    if (!best) return;
    served.algorithm = best->algorithm;
    served.ms = best->ms;
    if (!hasty) cache().put(key.text(), {std::to_array(best->algorithm.data), best->ms});
  }

  bool remember(const GemmKey& key, Served& served) {
    const TunedGemm* tuned = cache().find(key.text());
    if (tuned == nullptr) return false;
    cublasLtMatmulAlgo_t algorithm = {};
    std::ranges::copy(tuned->algorithm, algorithm.data);
    if (!served.plan.accepts(algorithm)) {
      log("{}: the algorithm for {} does not run here; it is timed again", cache().path().string(),
          key.text());
      return false;
    }
    served.algorithm = algorithm;
    served.ms = tuned->ms;
    return true;
  }

  static void run(const GemmKey& key, Served& served, const CudaGemm& p, void* stream) {
    if (!served.algorithm) return plain_gemm(p, stream);
    cublaslt().check(served.plan.run(p, *served.algorithm, stream), "multiplying {}", key.text());
  }

  GemmCache& cache() {
    if (!cache_) cache_.emplace(gemm_cache_path(device_name(), cublaslt().GetVersion()));
    return *cache_;
  }

  std::mutex mutex_;
  std::map<GemmKey, Served> served_;
  std::optional<GemmCache> cache_;
  bool told_ = false;
};

Products& products() {
  static auto* const products = new Products;  // outlives the library, so nothing is freed at exit
  return *products;
}

bool is_empty(const CudaGemm& p) { return p.m == 0 || p.n == 0; }

// The library makes other bits where the sum lies in the result than where it does not, and which
// it is depends on what a plan keeps. Where bits count, it always does.
CudaGemm in_place_where_bits_count(CudaGemm p, const Math& math, void* stream) {
  if (!math.deterministic || p.sum == nullptr || p.sum == p.c) return p;
  if (p.stride_of_c() != p.n)
    throw internal_error("a product adds into rows with gaps what lies elsewhere");
  const auto bytes = static_cast<size_t>(p.m * p.n * size_of(p.c_dtype));
  cuda::check(cudaMemcpyAsync(p.c, p.sum, bytes, cudaMemcpyDeviceToDevice,
                              static_cast<cudaStream_t>(stream)),
              "copying the {} bytes that a product adds to", bytes);
  p.sum = p.c;
  return p;
}

}  // namespace

void prepare_gemm(const CudaGemm& p, const Math& math, void* stream) {
  if (is_empty(p)) return;
  products().prepare(in_place_where_bits_count(p, math, stream), math, stream);
}

void cuda_gemm(const CudaGemm& p, const Math& math, void* stream) {
  if (is_empty(p)) return;
  products().run(in_place_where_bits_count(p, math, stream), math, stream);
}

std::optional<double> tuned_ms(const CudaGemm& p, const Math& math) {
  return products().ms(p, math);
}

}  // namespace snug::ops
