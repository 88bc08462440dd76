#include "ops/loss/linear_cross_entropy_cpu.h"

#include <optional>

#include "base/units.h"
#include "kernels/cpu/column_sum.h"
#include "kernels/cpu/typed_gemm.h"
#include "kernels/float_kernels.h"
#include "ops/loss/softmax_row.h"
#include "ops/loss/vocabulary_loss_kernels.h"
#include "ops/loss/vocabulary_part.h"

namespace snug::ops {
namespace {

// The types of the GEMMs: logits = x weight^T, dweight = dlogits^T x, dx = dlogits weight.
GemmTypes logits_types(Dtype dtype) { return {.a = dtype, .b = dtype}; }
GemmTypes dweight_types(Dtype dtype, Dtype grads) { return {.b = dtype, .c = grads}; }
GemmTypes dx_types(Dtype dtype) { return {.b = dtype, .c = dtype}; }

int64_t gemms_scratch(const LossHead& h, int64_t n) {
  const int64_t forward = gemm_scratch(n, h.V, h.C, logits_types(h.dtype));
  if (!h.backward) return forward;
  const int64_t dweight =
      h.dweight ? gemm_scratch(h.V, h.C, n, dweight_types(h.dtype, h.grads)) : 0;
  return std::max({forward, dweight, gemm_scratch(n, h.C, h.V, dx_types(h.dtype))});
}

// Byte offsets in the scratch: losses [n] f64 at its start, logits [n, V] f32; where a bias wants
// its gradient, the scratch of its column sums, and the gradient [V] as f32 unless it is so itself.
struct Layout {
  int64_t logits, column_sums, dbias, gemm, end;
};

Layout layout(const LossHead& h) {
  const char* what = "the logits of a chunk";
  int64_t end = 0;
  const auto place = [&](int64_t elements, int64_t size) {
    constexpr int64_t kAlign = 256;
    if (elements == 0) return end;
    const int64_t at = round_up(end, kAlign);
    end = checked_add(at, checked_mul(elements, size, what), what);
    return at;
  };
  constexpr int64_t kFloat = sizeof(float);
  const int64_t n = std::min(h.rows, h.chunk);
  place(n, size_of(Dtype::f64));
  Layout at{};
  at.logits = place(checked_mul(n, h.V, what), kFloat);
  at.column_sums = place(h.dbias ? column_sum_scratch(h.V) : 0, kFloat);
  at.dbias = place(h.dbias && h.grads != Dtype::f32 ? h.V : 0, kFloat);
  at.gemm = place(gemms_scratch(h, n), 1);
  at.end = end;
  return at;
}

// One call of either kernel: its shapes, what both read, and its scratch.
struct Sweep {
  LossHead head;
  const std::byte* x = nullptr;       // [rows, C]
  const std::byte* weight = nullptr;  // [V, C]
  const void* bias = nullptr;         // [V] or absent
  const int32_t* targets = nullptr;   // [rows]
  int64_t chunk = 0;
  double* row_loss = nullptr;    // [chunk]
  float* logits = nullptr;       // [chunk, V]
  float* column_sums = nullptr;  // scratch of column_sum, for a bias gradient
  float* dbias = nullptr;        // [V], for a bias gradient in two bytes
  std::byte* gemm = nullptr;     // scratch of the GEMMs

  int64_t row_bytes() const { return head.C * size_of(head.dtype); }  // of x and dx
};

Sweep sweep_of(const KernelArgs& a, size_t bias, bool backward) {
  using P = LinearCrossEntropyIn;
  Sweep s;
  s.head = loss_head(a, backward);
  s.x = a.in<std::byte>(P::kX);
  s.weight = a.in<std::byte>(P::kWeight);
  s.bias = a.in<std::byte>(bias);
  s.targets = a.in<int32_t>(P::kTargets);
  s.chunk = std::min(s.head.rows, s.head.chunk);
  const Layout at = layout(s.head);
  std::byte* scratch = a.workspace.data();
  s.row_loss = reinterpret_cast<double*>(scratch);
  s.logits = reinterpret_cast<float*>(scratch + at.logits);
  s.column_sums = reinterpret_cast<float*>(scratch + at.column_sums);
  s.dbias = reinterpret_cast<float*>(scratch + at.dbias);
  s.gemm = scratch + at.gemm;
  return s;
}

template <typename T>
void add_bias(float* x, const T* bias, int64_t V) {
  if (bias == nullptr) return;
#pragma omp simd
  for (int64_t v = 0; v < V; ++v) x[v] += static_cast<float>(bias[v]);
}

// The loss of one row, whose logits become exponentials and, with kGradient, dlogits.
template <bool kGradient, typename T>
double consume_row(float* x, const T* bias, int64_t V, int32_t target, float dloss) {
  if (target < 0) {
    if constexpr (kGradient) std::fill_n(x, V, 0.0F);
    return 0;
  }
  add_bias(x, bias, V);
  const float max = row_max(x, V);
  const double target_logit = logit_of(x, V, target);
  const double sum = row_sum(V, [=](int64_t v) { return x[v] = fast_exp(x[v] - max); });
  if constexpr (kGradient) {
    const auto scale = static_cast<float>(static_cast<double>(dloss) / sum);
#pragma omp simd
    for (int64_t v = 0; v < V; ++v) x[v] *= scale;
    if (target < V) x[target] -= dloss;
  }
  return static_cast<double>(max) + std::log(sum) - target_logit;
}

// Of rows [first, first + n), without the bias.
void make_logits(const Sweep& s, int64_t first, int64_t n) {
  typed_gemm({.m = n,
              .n = s.head.V,
              .k = s.head.C,
              .types = logits_types(s.head.dtype),
              .a = s.x + first * s.row_bytes(),
              .b = s.weight,
              .c = s.logits,
              .transpose_b = true,
              .scratch = s.gemm});
}

// Makes the logits of rows [first, first + n), returns their loss; with kGradient they are dlogits
// after it.
template <bool kGradient>
double consume_chunk(const Sweep& s, int64_t first, int64_t n, float dloss) {
  const int64_t V = s.head.V;
  make_logits(s, first, n);
  visit_float(s.head.dtype, [&](auto zero) {
    const auto* bias = static_cast<const decltype(zero)*>(s.bias);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < n; ++r) {
      s.row_loss[r] =
          consume_row<kGradient>(s.logits + r * V, bias, V, s.targets[first + r], dloss);
    }
  });
  return sum_in_order(s.row_loss, n);
}

// loss = loss_sum (where there is one) + what `consume(first, n)` gives for every chunk, in order.
template <typename Consume>
float sum_chunks(const Sweep& s, const float* loss_sum, const Consume& consume) {
  double loss = loss_sum != nullptr ? static_cast<double>(*loss_sum) : 0;
  for (int64_t first = 0; first < s.head.rows; first += s.chunk) {
    loss += consume(first, std::min(s.chunk, s.head.rows - first));
  }
  return static_cast<float>(loss);
}

// The bias gradient sums over all chunks in f32: in the output itself, or in scratch and rounded
// once at the end. It starts from what it is added to, where there is something.
class BiasGradient {
 public:
  BiasGradient(const Sweep& s, const Tensor& dbias, const void* add) : s_(s), dbias_(dbias) {
    sum_ = s.head.grads == Dtype::f32 ? dbias.as<float>() : s.dbias;
    started_ = add != nullptr;
    if (!started_) return;
    visit_float(s.head.grads, [&](auto zero) {
      const auto* from = static_cast<const decltype(zero)*>(add);
#pragma omp simd
      for (int64_t v = 0; v < s_.head.V; ++v) sum_[v] = static_cast<float>(from[v]);
    });
  }
  void add_chunk(int64_t n) {
    column_sum({.x = s_.logits,
                .add = started_ ? sum_ : nullptr,
                .sum = sum_,
                .scratch = s_.column_sums,
                .rows = n,
                .columns = s_.head.V});
    started_ = true;
  }
  void finish() {
    if (s_.head.grads == Dtype::f32) return;
    visit_float(s_.head.grads, [&](auto zero) {
      auto* to = dbias_.as<decltype(zero)>();
#pragma omp simd
      for (int64_t v = 0; v < s_.head.V; ++v) store(to[v], sum_[v]);
    });
  }

 private:
  const Sweep& s_;
  const Tensor& dbias_;
  float* sum_ = nullptr;
  bool started_ = false;
};

// Adds the chunk to dweight. A dweight of two bytes is rounded once per chunk: fp32 over all chunks
// would take another [V, C] floats, which --grad-dtype f32 provides.
void add_to_dweight(const Sweep& s, int64_t first, int64_t n, const void* add, void* dweight) {
  typed_gemm({.m = s.head.V,
              .n = s.head.C,
              .k = n,
              .types = dweight_types(s.head.dtype, s.head.grads),
              .a = s.logits,
              .b = s.x + first * s.row_bytes(),
              .c = dweight,
              .transpose_a = true,
              .sum = add,
              .scratch = s.gemm});
}

void make_dx(const Sweep& s, int64_t first, int64_t n, const std::byte* add, std::byte* dx) {
  typed_gemm({.m = n,
              .n = s.head.C,
              .k = s.head.V,
              .types = dx_types(s.head.dtype),
              .a = s.logits,
              .b = s.weight,
              .c = dx + first * s.row_bytes(),
              .sum = add != nullptr ? add + first * s.row_bytes() : nullptr,
              .scratch = s.gemm});
}

// --- where ranks share the vocabulary -----------------------------------------------------------

// What one row has of the words here, as (log-sum-exp, logit of the target or 0).
template <typename T>
void write_stats(float* x, const T* bias, const WordsHere& here, int32_t word, float* stats) {
  const int32_t target = here.target(word);
  stats[0] = stats[1] = 0;
  if (target == kNoTarget) return;
  add_bias(x, bias, here.count);
  stats[1] = target != kOtherRank ? x[target] : here.no_word(word);
  stats[0] = kNoWords;
  if (here.count == 0) return;
  const float max = row_max(x, here.count);
  const double sum = row_sum(here.count, [=](int64_t v) { return fast_exp(x[v] - max); });
  stats[0] = static_cast<float>(static_cast<double>(max) + std::log(sum));
}

// The logits of a row become dlogits; what is no word has none.
template <typename T>
void differentiate_row(float* x, const T* bias, const WordsHere& here, int64_t V, int32_t target,
                       float lse, float dloss) {
  const int64_t words = target == kNoTarget ? 0 : here.count;
  std::fill(x + words, x + V, 0.0F);
  if (words == 0) return;
  add_bias(x, bias, words);
#pragma omp simd
  for (int64_t v = 0; v < words; ++v) x[v] = fast_exp(x[v] - lse) * dloss;
  if (target != kOtherRank) x[target] -= dloss;
}

// dlogits of rows [first, first + n), and their loss.
double differentiate_chunk(const Sweep& s, const WordsHere& here, const float* stats, int64_t ranks,
                           int64_t first, int64_t n, float dloss) {
  make_logits(s, first, n);
  visit_float(s.head.dtype, [&](auto zero) {
    const auto* bias = static_cast<const decltype(zero)*>(s.bias);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < n; ++r) {
      const int32_t target = here.target(s.targets[first + r]);
      const AllWords all = all_words(stats, ranks, s.head.rows, first + r);
      s.row_loss[r] = target == kNoTarget ? 0 : all.lse - all.target;
      differentiate_row(s.logits + r * s.head.V, bias, here, s.head.V, target,
                        static_cast<float>(all.lse), dloss);
    }
  });
  return sum_in_order(s.row_loss, n);
}

// Gradients of all chunks, whose dlogits and loss `consume(first, n)` makes.
template <typename Consume>
void make_gradients(const KernelArgs& a, const Sweep& s, const Consume& consume) {
  using P = LinearCrossEntropyGradIn;
  void* dweight = s.head.dweight ? a.out(2).data : nullptr;  // [V, C], may be dweight_sum
  std::optional<BiasGradient> dbias;
  if (s.head.dbias) dbias.emplace(s, a.out(3), a.in<std::byte>(P::kDbiasSum));

  *a.out<float>(0) = sum_chunks(s, a.in<float>(P::kLossSum), [&](int64_t first, int64_t n) {
    const double loss = consume(first, n);  // the logits are dlogits now
    if (dweight != nullptr)
      add_to_dweight(s, first, n, first > 0 ? dweight : a.in<std::byte>(P::kDweightSum), dweight);
    if (dbias) dbias->add_chunk(n);
    // Last: dx may alias x, whose rows nothing reads from here on.
    make_dx(s, first, n, a.in<std::byte>(P::kDxSum), a.out<std::byte>(1));
    return loss;
  });
  if (dbias) dbias->finish();
}

}  // namespace

LossHead loss_head(const KernelArgs& a, bool backward) {
  using P = LinearCrossEntropyIn;
  return {.rows = a.in(P::kX).shape().rows(),
          .C = a.in(P::kX).shape().back(),
          .V = a.in(P::kWeight).shape()[0],
          .chunk = a.attrs.i("chunk"),
          .dtype = a.in(P::kX).type->dtype,
          .backward = backward,
          .dweight = a.outputs.size() > 2,
          .dbias = a.outputs.size() > 3,
          .grads = a.outputs.size() > 2 ? a.out(2).type->dtype : Dtype::f32};
}

int64_t linear_cross_entropy_workspace(const LossHead& head) { return layout(head).end; }

void linear_cross_entropy_cpu(const KernelArgs& a) {
  using P = LinearCrossEntropyIn;
  const Sweep s = sweep_of(a, P::kBias, /*backward=*/false);
  *a.out<float>(0) = sum_chunks(s, a.in<float>(P::kLossSum), [&](int64_t first, int64_t n) {
    return consume_chunk<false>(s, first, n, 0);
  });
}

void linear_cross_entropy_grad_cpu(const KernelArgs& a) {
  const Sweep s = sweep_of(a, bias_port_of_grad(a.outputs.size()), /*backward=*/true);
  const float dloss = *a.in<float>(LinearCrossEntropyGradIn::kDloss);
  make_gradients(a, s,
                 [&](int64_t first, int64_t n) { return consume_chunk<true>(s, first, n, dloss); });
}

void vocabulary_stats_cpu(const KernelArgs& a) {
  const Sweep s = sweep_of(a, LinearCrossEntropyIn::kBias, /*backward=*/false);
  const WordsHere here = WordsHere::of(a.attrs, s.head.V);
  auto* stats = a.out<float>(0);  // [rows, 2]
  for (int64_t first = 0; first < s.head.rows; first += s.chunk) {
    const int64_t n = std::min(s.chunk, s.head.rows - first);
    make_logits(s, first, n);
    visit_float(s.head.dtype, [&](auto zero) {
      const auto* bias = static_cast<const decltype(zero)*>(s.bias);
#pragma omp parallel for schedule(static)
      for (int64_t r = 0; r < n; ++r)
        write_stats(s.logits + r * s.head.V, bias, here, s.targets[first + r],
                    stats + 2 * (first + r));
    });
  }
}

void vocabulary_loss_cpu(const KernelArgs& a) {
  using P = LinearCrossEntropyIn;
  const auto* targets = a.in<int32_t>(P::kTargets);
  const int64_t rows = a.in(P::kTargets).elements(), ranks = a.attrs.i("ranks");
  double loss = a.has(P::kLossSum) ? static_cast<double>(*a.in<float>(P::kLossSum)) : 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (targets[r] < 0) continue;
    const AllWords all = all_words(a.in<float>(kVocabularyStats), ranks, rows, r);
    loss += all.lse - all.target;
  }
  *a.out<float>(0) = static_cast<float>(loss);
}

void vocabulary_loss_grad_cpu(const KernelArgs& a) {
  const Sweep s = sweep_of(a, bias_port_of_grad(a.outputs.size()), /*backward=*/true);
  const WordsHere here = WordsHere::of(a.attrs, s.head.V);
  const auto* stats = a.in<float>(vocabulary_stats_port_of_grad(s.head.dbias));
  const float dloss = *a.in<float>(LinearCrossEntropyGradIn::kDloss);
  make_gradients(a, s, [&](int64_t first, int64_t n) {
    return differentiate_chunk(s, here, stats, a.attrs.i("ranks"), first, n, dloss);
  });
}

}  // namespace snug::ops
