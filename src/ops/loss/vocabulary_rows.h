// Rows of a loss whose vocabulary ranks share, on CUDA. Enqueues only; `stream` is a cudaStream_t.
#pragma once

#include "ops/loss/loss_rows.h"
#include "ops/loss/vocabulary_part.h"

namespace snug::ops {

struct VocabularyRows {
  WordsHere words = {};
  const int32_t* targets = nullptr;  // [rows], among all words
  int32_t* here = nullptr;           // [rows], among those of this rank
  float* lse = nullptr;              // [rows], or absent
  double* losses = nullptr;          // [rows]
  int64_t rows = 0;
};

// `here`, from the targets.
void find_targets(const VocabularyRows& p, void* stream);
// Logits of what is no word become minus infinity, up to the rows' stride.
void end_words(const LossRows& p, int64_t words, void* stream);
// stats [rows, 2], from the losses and lse of the words here.
void write_stats(const VocabularyRows& p, float* stats, void* stream);
// losses and lse of all words, from stats [ranks, rows, 2].
void combine_stats(const VocabularyRows& p, const float* stats, int64_t ranks, void* stream);

}  // namespace snug::ops
