// embedding: y[b, t, :] = scale * table[tokens[b, t], :] (+ positions[t, :]) (+ types[0, :]). Tokens
// are rows of the table: the caller has checked them. With starts (ops/packed_rows.h)
// positions count from the beginning of the token's sample; those of OPT from row 2 on.
//
//   ValueId h = embedding(b, "embed", {.tokens = tokens, .table = wte, .positions = wpe});
#pragma once

#include "ir/builder.h"

namespace snug::ops {

// Float ports come first: the first input's dtype chooses the kernel. The backward ops take the
// number of rows of what they make as attribute `rows`.
//
// Attribute `padding`, where present: the lookup reads that token's row but gives it no gradient
// (torch's padding_idx). That is not the derivative of the forward, and samples, which are held to
// finite differences, leave it out: embedding_test.cpp checks it by numbers.
extern const OpDef embedding_def;       // (table, tokens, [positions], [types], [starts]) -> y
extern const OpDef embedding_grad_def;  // (dy, tokens, [dtable_sum]) -> dtable
extern const OpDef embedding_grad_positions_def;  // (dy, [dpositions_sum], [starts]) -> dpositions
extern const OpDef embedding_grad_types_def;      // (dy, [dtypes_sum]) -> dtypes

struct Embedding {
  ValueId tokens;              // i32[B, T]
  ValueId table;               // [V, C]
  ValueId positions = {};      // [P, C], P >= T: row t is added
  ValueId types = {};          // [N, C]: row 0 is added
  ValueId starts = {};         // i32[B, T], where rows hold several samples: row t - start is added
  int64_t first_position = 0;  // the row of the first position
  double scale = 1;            // of the table's rows, rounded to their type as transformers does
  int64_t padding = -1;        // >= 0: the token whose row of the table the lookup does not train
};
ValueId embedding(Builder& b, std::string_view name, const Embedding& p);  // [B, T, C]

}  // namespace snug::ops
