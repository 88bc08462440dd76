// How a model's forward pass is to be written: the shape of a micro-batch and the kinds of its
// costly parts.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/attention/attention_kind.h"

namespace snug {

struct BuildOptions {
  int64_t batch = 1;  // sequences per micro-batch
  int64_t seq = 1024;
  ops::AttentionKind attention = ops::AttentionKind::flash;
  int64_t attention_chunk = 128;    // queries whose scores exist at the same time, where chunked
  bool chunked_loss = true;         // the logits of all tokens never exist at the same time
  int64_t loss_chunk = 1024;        // tokens whose logits do, where chunked
  bool fused_loss = false;          // whole logits are scratch of the loss too, not a value
  bool residual_in_matmul = false;  // a matmul adds the residual itself, where nothing is between
  bool packed = false;              // rows hold several samples: input `starts` says where
  std::optional<double> dropout;    // in place of every rate that the model names

  friend bool operator==(const BuildOptions&, const BuildOptions&) = default;
};

}  // namespace snug
