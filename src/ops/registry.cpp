#include "ops/registry.h"

#include "ops/activation/dropout.h"
#include "ops/activation/gelu.h"
#include "ops/activation/relu.h"
#include "ops/activation/swiglu.h"
#include "ops/attention/attention.h"
#include "ops/attention/cached_attention.h"
#include "ops/basic/add.h"
#include "ops/basic/assign.h"
#include "ops/basic/cast.h"
#include "ops/basic/copy.h"
#include "ops/basic/fill.h"
#include "ops/basic/is_finite.h"
#include "ops/basic/multiply.h"
#include "ops/comm/column.h"
#include "ops/comm/comm.h"
#include "ops/comm/pack.h"
#include "ops/comm/rank_sum.h"
#include "ops/embedding/embedding.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_parts.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/vocabulary_loss.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/optimizer/adam_mini.h"
#include "ops/optimizer/adamw.h"
#include "ops/optimizer/adamw8bit.h"
#include "ops/optimizer/clip.h"
#include "ops/optimizer/lion.h"
#include "ops/optimizer/loss_scale.h"
#include "ops/optimizer/sgd.h"
#include "ops/quantize/quantize.h"
#include "ops/rotary/qk_norm.h"
#include "ops/rotary/rope.h"

namespace snug::ops {

// clang-format off
Registry registry() {
  static const OpDef* const all[] = {
      // basic
      &add_def, &assign_def, &multiply_def, &is_finite_def, &cast_def, &copy_def, &fill_def,
      // embedding
      &embedding_def, &embedding_grad_def, &embedding_grad_positions_def, &embedding_grad_types_def,
      // linear
      &linear_def, &linear_grad_input_def, &linear_grad_weight_def, &linear_grad_bias_def,
      &linear_parts_def, &linear_parts_grad_input_def, &linear_parts_grad_weight_def,
      // norm
      &rms_norm_def, &residual_rms_norm_def, &rms_norm_grad_def, &rms_norm_recompute_grad_def,
      &layer_norm_def, &residual_layer_norm_def, &layer_norm_grad_def,
      &layer_norm_recompute_grad_def,
      // attention
      &qk_norm_def, &qk_norm_grad_def, &rope_def, &attention_def, &attention_grad_def,
      &chunked_attention_def, &chunked_attention_grad_def,
      &flash_attention_def, &flash_attention_grad_def, &cached_attention_def,
      // activation
      &gelu_def, &gelu_grad_def, &gelu_recompute_grad_def, &relu_def, &relu_grad_def,
      &swiglu_def, &swiglu_grad_def, &swiglu_recompute_grad_def, &dropout_def,
      // loss
      &cross_entropy_def, &cross_entropy_grad_def,
      &linear_cross_entropy_def, &linear_cross_entropy_grad_def, &linear_bias_cross_entropy_grad_def,
      &linear_cross_entropy_grad_input_def,
      &vocabulary_stats_def, &vocabulary_loss_def, &vocabulary_loss_grad_def, &vocabulary_bias_loss_grad_def,
      // optimizer
      &adamw_def, &adamw8bit_def, &adam_mini_def, &lion_def, &sgd_def, &sgd_momentum_def,
      &adamw_master_def, &adamw8bit_master_def, &adam_mini_master_def, &lion_master_def,
      &sgd_master_def, &sgd_momentum_master_def,
      &sum_squares_def, &clip_def, &advance_def, &adjust_loss_scale_def,
      // quantize
      &quantize_int8_def, &dequantize_int8_def, &dequantize_nf4_def,
      // comm
      &all_gather_def, &gather_rows_def, &scatter_rows_def, &all_to_all_def, &column_def, &pack_def, &rank_sum_def, &reduce_scatter_def, &all_reduce_def, &broadcast_def, &send_def, &recv_def,
  };
  return all;
}
// clang-format on

}  // namespace snug::ops
