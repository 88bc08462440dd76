#include "kernels/cuda/gemm.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "base/notes.h"
#include "hal/cuda/cuda_error.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm_cache.h"
#include "kernels/cuda/gemm_plain.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/gemm_tune.h"
#include "kernels/cuda/gemm_waves.h"

namespace snug::ops {
namespace {

bool tuning_is_off() {
  const char* value = std::getenv("SNUG_NO_TUNE");
  return value != nullptr && std::string_view(value) == "1";
}

// A GEMM with the algorithm that serves it; with none, our own plain kernel does.
struct Served {
  GemmPlan plan;
  std::optional<cublasLtMatmulAlgo_t> algorithm = {};
  std::optional<double> ms = {};
  int64_t rows = 0;  // the first so many and the others are two GEMMs; 0: it is one
  bool prepared = false;
  bool quick = false;  // after a quick autotune: a longer one may come
};

enum class Chosen : uint8_t { by_rule, cached, timed };

std::array<CudaGemm, 2> parts_of(const CudaGemm& p, int64_t rows) {
  return {rows_of(p, 0, rows), rows_of(p, rows, p.m - rows)};
}

// The GEMMs that this process has met. One lock: a step is a graph, so it is never contended.
class Gemms {
 public:
  void prepare(const CudaGemm& p, const Math& math, void* stream) {
    const std::lock_guard lock(mutex_);
    const GemmKey key = GemmKey::of(p, math);
    Served& served = at(key, p);
    if (served.prepared && (math.quick_autotune || !served.quick)) return;
    const Chosen chosen = choose(key, served, p, math, stream);
    if (chosen == Chosen::timed && !math.quick_autotune) {
      try_parts(key, served, p, math, stream);
      keep(key, served);
    } else if (served.rows > 0) {
      choose_parts(p, served.rows, math, stream);
    }
    // This loads its code, which must not happen while a graph is captured.
    run(key, served, p, math, stream);
    served.prepared = true;
  }

  void run(const CudaGemm& p, const Math& math, void* stream) {
    const std::lock_guard lock(mutex_);
    const GemmKey key = GemmKey::of(p, math);
    run(key, at(key, p), p, math, stream);
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

  Chosen choose(const GemmKey& key, Served& served, const CudaGemm& p, const Math& math,
                void* stream) {
    if (!is_large_gemm(p.m, p.n, p.k)) return Chosen::by_rule;
    if (!served.algorithm)
      note("cuBLASLt takes no GEMM {}: a plain kernel makes it, slowly", key.text());
    if (!served.algorithm || math.deterministic || tuning_is_off()) return Chosen::by_rule;
    served.quick = false;
    if (take_cached(key, served)) return Chosen::cached;
    choose_fastest(served, p, math.quick_autotune, stream);
    return Chosen::timed;
  }

  // In two GEMMs where that is faster, for good.
  void try_parts(const GemmKey& key, Served& served, const CudaGemm& p, const Math& math,
                 void* stream) {
    constexpr double kWorthwhile = 0.99;  // the clock wanders by more in one block
    const int64_t rows = p.transpose_a ? 0 : rows_of_whole_waves(p.m, p.n, multiprocessors());
    if (rows == 0 || !served.ms) return;
    choose_parts(p, rows, math, stream);
    const auto [whole, parts] =
        compare_sustained_ms([&] { run_whole(key, served, p, stream); },
                             [&] { run_parts(p, rows, math, stream); }, *served.ms, stream);
    if (parts > kWorthwhile * whole) return;
    served.rows = rows;
    served.ms = parts;
  }

  void choose_parts(const CudaGemm& p, int64_t rows, const Math& math, void* stream) {
    for (const CudaGemm& part : parts_of(p, rows)) {
      const GemmKey key = GemmKey::of(part, math);
      Served& served = at(key, part);
      if (choose(key, served, part, math, stream) == Chosen::timed && !math.quick_autotune)
        keep(key, served);
    }
  }

  void choose_fastest(Served& served, const CudaGemm& p, bool quick, void* stream) {
    served.quick = quick;
    if (!quick && !told_) {
      const std::string path = cache().path().string();
      note("timing GEMMs on this GPU, three to ten seconds each, once{}",
           path.empty() ? "" : "; kept in " + path);
      told_ = true;
    }
    const std::optional<TimedAlgorithm> best = fastest_algorithm(served.plan, p, quick, stream);
    if (!best) return;
    served.algorithm = best->algorithm;
    served.ms = best->ms;
  }

  void keep(const GemmKey& key, const Served& served) {
    if (!served.ms) return;
    cache().put(key.text(), {std::to_array(served.algorithm->data), *served.ms, served.rows});
  }

  bool take_cached(const GemmKey& key, Served& served) {
    const TunedGemm* tuned = cache().find(key.text());
    if (tuned == nullptr) return false;
    cublasLtMatmulAlgo_t algorithm = {};
    std::ranges::copy(tuned->algorithm, algorithm.data);
    if (!served.plan.accepts(algorithm)) {
      note("{}: the algorithm for {} does not run here; it is timed again", cache().path().string(),
           key.text());
      return false;
    }
    served.algorithm = algorithm;
    served.ms = tuned->ms;
    served.rows = tuned->rows < key.m && !key.part ? tuned->rows : 0;
    return true;
  }

  void run(const GemmKey& key, Served& served, const CudaGemm& p, const Math& math, void* stream) {
    if (served.rows > 0) return run_parts(p, served.rows, math, stream);
    run_whole(key, served, p, stream);
  }

  void run_parts(const CudaGemm& p, int64_t rows, const Math& math, void* stream) {
    for (const CudaGemm& part : parts_of(p, rows)) {
      const GemmKey key = GemmKey::of(part, math);
      run_whole(key, at(key, part), part, stream);
    }
  }

  static void run_whole(const GemmKey& key, Served& served, const CudaGemm& p, void* stream) {
    if (!served.algorithm) return plain_gemm(p, stream);
    cublaslt().check(served.plan.run(p, *served.algorithm, stream), "multiplying {}", key.text());
  }

  GemmCache& cache() {
    if (!cache_) cache_.emplace(gemm_cache_path(device_facts().name, cublaslt().GetVersion()));
    return *cache_;
  }

  std::mutex mutex_;
  std::map<GemmKey, Served> served_;
  std::optional<GemmCache> cache_;
  bool told_ = false;
};

Gemms& gemms() {
  static auto* const gemms = new Gemms;  // outlives the library, so nothing is freed at exit
  return *gemms;
}

bool is_empty(const CudaGemm& p) { return p.m == 0 || p.n == 0; }

// The library makes other bits where the sum is in the result than where it is not, and which
// it is depends on what a plan keeps. Where bits count, it always does.
CudaGemm in_place_where_bits_count(CudaGemm p, const Math& math, void* stream) {
  if (!math.deterministic || p.sum == nullptr || p.sum == p.c) return p;
  const auto bytes_of = [&](int64_t elements) {
    return static_cast<size_t>(elements * size_of(p.c_dtype));
  };
  const size_t stride = bytes_of(p.stride_of_c());
  cuda::check(cudaMemcpy2DAsync(p.c, stride, p.sum, stride, bytes_of(p.n), static_cast<size_t>(p.m),
                                cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)),
              "copying the {} rows that a GEMM adds to", p.m);
  p.sum = p.c;
  return p;
}

}  // namespace

void prepare_gemm(const CudaGemm& p, const Math& math, void* stream) {
  if (is_empty(p)) return;
  gemms().prepare(in_place_where_bits_count(p, math, stream), math, stream);
}

void cuda_gemm(const CudaGemm& p, const Math& math, void* stream) {
  if (is_empty(p)) return;
  gemms().run(in_place_where_bits_count(p, math, stream), math, stream);
}

std::optional<double> tuned_ms(const CudaGemm& p, const Math& math) { return gemms().ms(p, math); }

}  // namespace snug::ops
