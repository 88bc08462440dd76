#include "ops/loss/linear_cross_entropy_cuda.h"

#include "ops/loss/loss_rows.h"
#include "ops/loss/vocabulary_loss_kernels.h"
#include "ops/loss/vocabulary_rows.h"

namespace snug::ops {
namespace {

// One call of either kernel: its shapes, what both read, and its scratch.
struct Sweep {
  const KernelArgs& a;
  LossHead head;
  CudaLossScratch at;
  size_t bias;  // its port
  int64_t chunk;

  std::byte* scratch(int64_t offset) const { return a.workspace.data() + offset; }
  int64_t stride() const { return cuda_logits_stride(head); }  // of the logits in scratch
  double* losses() const { return reinterpret_cast<double*>(a.workspace.data()); }
  const std::byte* rows(size_t port, int64_t first) const {  // of [rows, C], absent or not
    return a.has(port) ? a.in<std::byte>(port) + first * head.C * size_of(head.dtype) : nullptr;
  }
  int64_t rows_at(int64_t first) const { return std::min(chunk, head.rows - first); }
  CudaGemm gemm(int64_t m, int64_t n, int64_t k) const {
    return {.m = m,
            .n = n,
            .k = k,
            .a_dtype = head.dtype,
            .b_dtype = head.dtype,
            .c_dtype = head.dtype,
            .workspace = a.workspace.subspan(static_cast<size_t>(at.gemm),
                                             static_cast<size_t>(at.end - at.gemm))};
  }
};

Sweep sweep_of(const KernelArgs& a, size_t bias, bool backward) {
  const LossHead head = loss_head(a, backward);
  return {.a = a,
          .head = head,
          .at = CudaLossScratch::of(head),
          .bias = bias,
          .chunk = std::min(head.rows, head.chunk)};
}

// --- the GEMMs of the chunk that begins with row `first` -------------------------------------

// Neighbours in the vocabulary.
struct Words {
  int64_t first, count;
};

// The vocabulary in two parts where it is no multiple of 16 bytes: cuBLASLt's GEMMs are several
// times slower along an odd side, and the few words beyond are GEMMs of next to no work.
template <typename Fn>
void for_words(const LossHead& head, const Fn& fn) {
  const int64_t rest = head.V % (16 / size_of(head.dtype));
  if (head.V > rest) fn(Words{0, head.V - rest});
  if (rest > 0) fn(Words{head.V - rest, rest});
}

std::byte* logits_of(const Sweep& s, const Words& words) {
  return s.scratch(s.at.logits) + words.first * size_of(s.head.dtype);
}

const std::byte* weights_of(const Sweep& s, const Words& words) {
  constexpr size_t kWeight = LinearCrossEntropyIn::kWeight;
  static_assert(kWeight == LinearCrossEntropyGradIn::kWeight);
  return s.a.in<std::byte>(kWeight) + words.first * s.head.C * size_of(s.head.dtype);
}

CudaGemm logits_gemm(const Sweep& s, int64_t first, const Words& words) {
  using P = LinearCrossEntropyIn;
  CudaGemm p = s.gemm(s.rows_at(first), words.count, s.head.C);
  p.a = s.rows(P::kX, first);
  p.b = weights_of(s, words);
  p.transpose_b = true;
  if (s.a.has(s.bias)) p.bias = s.a.in<std::byte>(s.bias) + words.first * size_of(s.head.dtype);
  p.c = logits_of(s, words);
  p.c_stride = s.stride();
  return p;
}

// dweight adds up in fp32 inside a GEMM and in its own type over the chunks: one of two bytes is
// rounded once per chunk. fp32 over all chunks would take another [V, C] floats, which --grad-dtype
// f32 provides.
CudaGemm dweight_gemm(const Sweep& s, int64_t first, const Words& words) {
  using P = LinearCrossEntropyGradIn;
  const int64_t offset = words.first * s.head.C * size_of(s.head.grads);
  CudaGemm p = s.gemm(words.count, s.head.C, s.rows_at(first));
  p.a = logits_of(s, words);
  p.a_stride = s.stride();
  p.transpose_a = true;
  p.b = s.rows(P::kX, first);
  p.c_dtype = s.head.grads;
  p.c = s.a.out<std::byte>(2) + offset;
  if (first > 0)
    p.sum = p.c;
  else if (s.a.has(P::kDweightSum))
    p.sum = s.a.in<std::byte>(P::kDweightSum) + offset;
  return p;
}

// The second part adds to the first, which is rounded once more for it.
CudaGemm dx_gemm(const Sweep& s, int64_t first, const Words& words) {
  using P = LinearCrossEntropyGradIn;
  CudaGemm p = s.gemm(s.rows_at(first), s.head.C, words.count);
  p.a = logits_of(s, words);
  p.a_stride = s.stride();
  p.b = weights_of(s, words);
  p.c = s.a.out<std::byte>(1) + first * s.head.C * size_of(s.head.dtype);
  p.sum = words.first > 0 ? p.c : s.rows(P::kDxSum, first);
  return p;
}

using GemmOf = CudaGemm (*)(const Sweep&, int64_t, const Words&);

void multiply(const Sweep& s, int64_t first, GemmOf gemm) {
  for_words(s.head,
            [&](const Words& words) { cuda_gemm(gemm(s, first, words), s.a.math, s.a.stream); });
}

void prepare(const Sweep& s, int64_t first, GemmOf gemm) {
  for_words(s.head,
            [&](const Words& words) { prepare_gemm(gemm(s, first, words), s.a.math, s.a.stream); });
}

// ------------------------------------------------------------------------------------------------

LossRows loss_rows(const Sweep& s, int64_t first) {
  return {.logits = s.scratch(s.at.logits),
          .targets = s.a.in<int32_t>(LinearCrossEntropyIn::kTargets) + first,
          .losses = s.losses() + first,
          .rows = s.rows_at(first),
          .V = s.head.V,
          .stride = s.stride(),
          .dtype = s.head.dtype};
}

// The bias gradient sums over all chunks in fp32, in scratch, and is rounded once at the end.
void add_to_dbias(const Sweep& s, int64_t first) {
  void* sum = s.scratch(s.at.dbias);
  cuda_column_sum({.x = s.scratch(s.at.logits),
                   .add = first > 0 ? sum : nullptr,
                   .sum = sum,
                   .scratch = s.scratch(s.at.column_sums),
                   .rows = s.rows_at(first),
                   .columns = s.head.V,
                   .x_stride = s.stride(),
                   .x_dtype = s.head.dtype,
                   .sum_dtype = Dtype::f32},
                  s.a.stream);
}

void finish_dbias(const Sweep& s) {
  cuda_add_partials({.partials = reinterpret_cast<const float*>(s.scratch(s.at.dbias)),
                     .add = s.a.in<std::byte>(LinearCrossEntropyGradIn::kDbiasSum),
                     .sum = s.a.out(3).data,
                     .blocks = 1,
                     .columns = s.head.V,
                     .sum_dtype = s.head.grads},
                    s.a.stream);
}

// Of the chunk whose dlogits are in scratch.
void add_gradients(const Sweep& s, int64_t first) {
  if (s.head.dweight) multiply(s, first, dweight_gemm);
  if (s.head.dbias) add_to_dbias(s, first);
  // Last: dx may alias x, whose rows nothing reads from here on.
  multiply(s, first, dx_gemm);
}

VocabularyRows vocabulary_rows(const Sweep& s) {
  const VocabularyScratch at = VocabularyScratch::of(s.head);
  return {.words = WordsHere::of(s.a.attrs, s.head.V),
          .targets = s.a.in<int32_t>(LinearCrossEntropyIn::kTargets),
          .here = reinterpret_cast<int32_t*>(s.scratch(at.targets)),
          .lse = reinterpret_cast<float*>(s.scratch(at.lse)),
          .losses = s.losses(),
          .rows = s.head.rows};
}

}  // namespace

void linear_cross_entropy_cuda(const KernelArgs& a) {
  using P = LinearCrossEntropyIn;
  const Sweep s = sweep_of(a, P::kBias, /*backward=*/false);
  for (int64_t first = 0; first < s.head.rows; first += s.chunk) {
    multiply(s, first, logits_gemm);
    loss_of_rows(loss_rows(s, first), a.stream);
  }
  sum_losses(s.losses(), s.head.rows, a.in<float>(P::kLossSum), a.out<float>(0), a.stream);
}

// Every chunk: the first differs in what dweight is added to, the last in its rows, and GEMMs
// that were met before cost nothing.
void linear_cross_entropy_cuda_prepare(const KernelArgs& a) {
  const Sweep s = sweep_of(a, LinearCrossEntropyIn::kBias, /*backward=*/false);
  for (int64_t first = 0; first < s.head.rows; first += s.chunk) {
    prepare(s, first, logits_gemm);
  }
}

void linear_cross_entropy_grad_cuda(const KernelArgs& a) {
  using P = LinearCrossEntropyGradIn;
  const Sweep s = sweep_of(a, bias_port_of_grad(a.outputs.size()), /*backward=*/true);
  for (int64_t first = 0; first < s.head.rows; first += s.chunk) {
    LossRows rows = loss_rows(s, first);
    rows.dloss = a.in<float>(P::kDloss);
    multiply(s, first, logits_gemm);
    loss_and_gradient_of_rows(rows, a.stream);  // the logits are dlogits now
    add_gradients(s, first);
  }
  if (s.head.dbias) finish_dbias(s);
  sum_losses(s.losses(), s.head.rows, a.in<float>(P::kLossSum), a.out<float>(0), a.stream);
}

// --- where ranks share the vocabulary -----------------------------------------------------------

void vocabulary_stats_cuda(const KernelArgs& a) {
  const Sweep s = sweep_of(a, LinearCrossEntropyIn::kBias, /*backward=*/false);
  const VocabularyRows all = vocabulary_rows(s);
  find_targets(all, a.stream);
  for (int64_t first = 0; first < s.head.rows; first += s.chunk) {
    LossRows rows = loss_rows(s, first);
    rows.targets = all.here + first;
    rows.lse = all.lse + first;
    multiply(s, first, logits_gemm);
    end_words(rows, all.words.count, a.stream);
    loss_of_rows(rows, a.stream);
  }
  write_stats(all, a.out<float>(0), a.stream);
}

void vocabulary_loss_cuda(const KernelArgs& a) {
  using P = LinearCrossEntropyIn;
  const VocabularyRows all{.targets = a.in<int32_t>(P::kTargets),
                           .losses = reinterpret_cast<double*>(a.workspace.data()),
                           .rows = a.in(P::kTargets).elements()};
  combine_stats(all, a.in<float>(kVocabularyStats), a.attrs.i("ranks"), a.stream);
  sum_losses(all.losses, all.rows, a.in<float>(P::kLossSum), a.out<float>(0), a.stream);
}

void vocabulary_loss_grad_cuda(const KernelArgs& a) {
  using P = LinearCrossEntropyGradIn;
  const Sweep s = sweep_of(a, bias_port_of_grad(a.outputs.size()), /*backward=*/true);
  const VocabularyRows all = vocabulary_rows(s);
  find_targets(all, a.stream);
  combine_stats(all, a.in<float>(vocabulary_stats_port_of_grad(s.head.dbias)), a.attrs.i("ranks"),
                a.stream);
  for (int64_t first = 0; first < s.head.rows; first += s.chunk) {
    LossRows rows = loss_rows(s, first);
    rows.targets = all.here + first;
    rows.lse = all.lse + first;
    rows.dloss = a.in<float>(P::kDloss);
    multiply(s, first, logits_gemm);
    end_words(rows, all.words.count, a.stream);
    gradient_of_rows(rows, rows.logits, a.stream);
    add_gradients(s, first);
  }
  if (s.head.dbias) finish_dbias(s);
  sum_losses(s.losses(), s.head.rows, a.in<float>(P::kLossSum), a.out<float>(0), a.stream);
}

void linear_cross_entropy_grad_cuda_prepare(const KernelArgs& a) {
  const Sweep s = sweep_of(a, bias_port_of_grad(a.outputs.size()), /*backward=*/true);
  for (int64_t first = 0; first < s.head.rows; first += s.chunk) {
    prepare(s, first, logits_gemm);
    if (s.head.dweight) prepare(s, first, dweight_gemm);
    prepare(s, first, dx_gemm);
  }
}

}  // namespace snug::ops
