#include "ops/loss/vocabulary_rows.h"

#include "kernels/cuda/map.cuh"

namespace snug::ops {
namespace {

constexpr int kVocabularyThreads = 128;

__global__ void __launch_bounds__(kVocabularyThreads) find_targets_kernel(VocabularyRows p) {
  const int64_t r = int64_t{blockIdx.x} * kVocabularyThreads + threadIdx.x;
  if (r < p.rows) p.here[r] = p.words.target(p.targets[r]);
}

template <typename T>
__global__ void __launch_bounds__(kVocabularyThreads) end_words_kernel(LossRows p, int64_t words) {
  T* row = static_cast<T*>(p.logits) + int64_t{blockIdx.x} * p.stride;
  for (int64_t v = words + threadIdx.x; v < p.stride; v += kVocabularyThreads)
    row[v] = from_float<T>(-INFINITY);
}

__global__ void __launch_bounds__(kVocabularyThreads)
    write_stats_kernel(VocabularyRows p, float* stats) {
  const int64_t r = int64_t{blockIdx.x} * kVocabularyThreads + threadIdx.x;
  if (r >= p.rows) return;
  const int32_t target = p.here[r];
  const bool counts = target != kNoTarget, here = counts && target != kOtherRank;
  const float lse = p.words.count > 0 ? p.lse[r] : kNoWords;
  stats[2 * r] = counts ? lse : 0.0F;
  stats[2 * r + 1] = here ? static_cast<float>(static_cast<double>(p.lse[r]) - p.losses[r])
                          : p.words.no_word(p.targets[r]);
}

__global__ void __launch_bounds__(kVocabularyThreads)
    combine_stats_kernel(VocabularyRows p, const float* stats, int64_t ranks) {
  const int64_t r = int64_t{blockIdx.x} * kVocabularyThreads + threadIdx.x;
  if (r >= p.rows) return;
  const bool counts = p.targets[r] >= 0;
  const AllWords all = counts ? all_words(stats, ranks, p.rows, r) : AllWords{};
  p.losses[r] = all.lse - all.target;
  if (p.lse != nullptr) p.lse[r] = static_cast<float>(all.lse);
}

unsigned blocks_of(int64_t rows) {
  return static_cast<unsigned>(ceil_div(rows, kVocabularyThreads));
}

}  // namespace

void find_targets(const VocabularyRows& p, void* stream) {
  if (p.rows == 0) return;
  find_targets_kernel<<<blocks_of(p.rows), kVocabularyThreads, 0,
                        static_cast<cudaStream_t>(stream)>>>(p);
  check_launch("the targets of rows");
}

void end_words(const LossRows& p, int64_t words, void* stream) {
  if (p.rows == 0 || words == p.stride) return;
  visit_device_float(p.dtype, [&](auto zero) {
    end_words_kernel<decltype(zero)><<<static_cast<unsigned>(p.rows), kVocabularyThreads, 0,
                                       static_cast<cudaStream_t>(stream)>>>(p, words);
  });
  check_launch("the end of words");
}

void write_stats(const VocabularyRows& p, float* stats, void* stream) {
  if (p.rows == 0) return;
  write_stats_kernel<<<blocks_of(p.rows), kVocabularyThreads, 0,
                       static_cast<cudaStream_t>(stream)>>>(p, stats);
  check_launch("the statistics of rows");
}

void combine_stats(const VocabularyRows& p, const float* stats, int64_t ranks, void* stream) {
  if (p.rows == 0) return;
  combine_stats_kernel<<<blocks_of(p.rows), kVocabularyThreads, 0,
                         static_cast<cudaStream_t>(stream)>>>(p, stats, ranks);
  check_launch("the statistics of ranks");
}

}  // namespace snug::ops
