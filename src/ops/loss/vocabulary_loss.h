// linear_cross_entropy where ranks share the vocabulary: each has the words [first, first + V) of the
// head. Every rank makes the statistics of its words, gathers those of all ranks, and has the loss of
// all words; backward makes the gradients from its own words' logits, which exist for a chunk of tokens
// at a time. dx is this rank's part of a sum over the ranks.
//
//   const VocabularyPart part{.first = 1000, .words = 3000, .ranks = 3};
//   ValueId stats = vocabulary_stats(b, "loss.stats", head, part);
//   ValueId all = all_gather(b, "loss.stats.gather", stats, over_tensor(mesh));
//   ValueId loss = vocabulary_loss(b, "loss", head, part, all);
#pragma once

#include "ops/loss/linear_cross_entropy.h"

namespace snug::ops {

// Rows of stats are (log of the sum of exponentials of the words here, logit of the target or 0 where it
// is not here), zeros where the row does not count. Attributes: chunk, first, words, ranks.
extern const OpDef vocabulary_stats_def;  // (x, weight, targets, [bias]) -> stats f32[rows, 2]
// (x, weight, targets, [bias], [loss_sum], stats f32[ranks * rows, 2]) -> loss
extern const OpDef vocabulary_loss_def;
// The backward ops of linear_cross_entropy, with the stats as one more input at the end.
extern const OpDef vocabulary_loss_grad_def;
extern const OpDef vocabulary_bias_loss_grad_def;

struct VocabularyPart {
  int64_t first = 0;  // of all words: the first that is here
  int64_t words = 0;  // all of them; what the weight has beyond is padding
  int64_t ranks = 1;
};
ValueId vocabulary_stats(Builder& b, std::string_view name, const LinearCrossEntropy& p,
                         const VocabularyPart& part);
ValueId vocabulary_loss(Builder& b, std::string_view name, const LinearCrossEntropy& p,
                        const VocabularyPart& part, ValueId stats);

}  // namespace snug::ops
