#include "ops/attention/attention_server.h"

namespace snug::ops {
namespace {

// Why cuDNN does not serve what Snug's tensor-core kernels do.
std::string_view why_own(const PackedHeads& p, Dtype dtype, AttentionNeeds needs) {
  if (!is_half(dtype)) return "fp32 as tf32";
  if (needs.dropout) return "dropout";
  if (needs.packed) return "packed samples";
  if (p.D > 128) return "heads of more than 128 elements";
  return p.D % 8 != 0 ? "heads of no whole 16 bytes" : "one token";
}

// What would put heads of f32 on tensor cores.
std::string_view instead_of_fp32(const PackedHeads& p) {
  return mma_serves(p, Dtype::f32, /*tf32=*/true) ? "--tf32 or --precision bf16"
                                                  : "--precision bf16";
}

}  // namespace

Served served_flash_attention(const OpView& op, const Math& math) {
  const PackedHeads p = packed_heads(op.shape(0), op.attrs);
  const Dtype dtype = op.in(0).dtype;
  const AttentionNeeds needs{
      .dropout = op.attrs.has("p"), .packed = has_starts(op), .tf32 = math.tf32};
  const Server by = attention_server(p, dtype, needs);
  if (by == Server::cudnn) return {by};
  if (by == Server::tensor_cores) return {by, why_own(p, dtype, needs)};
  return {by, math.tf32 ? "fp32 and heads of more than 128 elements" : "fp32 without --tf32",
          instead_of_fp32(p)};
}

Served served_attention(const OpView& op, const Math& math) {
  const PackedHeads p = packed_heads(op.shape(0), op.attrs);
  const bool flash_is_fast = mma_serves(p, op.in(0).dtype, math.tf32);
  return {Server::plain_tiles, "--attention standard",
          flash_is_fast ? "--attention flash" : "--attention flash with --precision bf16"};
}

}  // namespace snug::ops
