// The formats of numbers in fewer bits: one table. Ops, passes, updates and checkpoints read it; only this
// folder knows how many bits a number has and how many numbers share a scale.
//
// A quantized value is its payload, which has the codes of the numbers, and its scales, one for each block
// of consecutive elements, in memory order. A number is what its code means times its block's scale, which
// is made from the block's current largest magnitude.
//
//   kNf4.payload_type({4096, 4096});   // u8[4096,2048]
//   kNf4.scales_type({4096, 4096});    // f32[262144]
#pragma once

#include <span>

#include "base/units.h"
#include "ir/value.h"

namespace snug {
struct OpDef;
}

namespace snug::ops {

extern const OpDef quantize_int8_def, dequantize_int8_def,
    dequantize_nf4_def;  // ops/quantize/quantize.h

struct Format {
  std::string_view name;
  Dtype payload = Dtype::u8;
  int64_t packed = 1;  // codes in one element of the payload
  int64_t block = 0;   // elements that share a scale
  Dtype scale = Dtype::f32;
  // What a frozen weight's values are called; plain where no weight is stored so.
  Stored stored_payload = Stored::plain, stored_scales = Stored::plain;
  // None where no program has such an op: weights are quantized where they are read or drawn, on the host
  // (ops/quantize/store.h), and state by the op that updates it.
  const OpDef* quantize = nullptr;
  const OpDef* dequantize = nullptr;

  // Of the whole shape: with packed codes the last axis is that much shorter.
  Type payload_type(const Shape& whole) const {
    return {payload, packed == 1 ? whole : whole.with_back(whole.back() / packed)};
  }
  Type scales_type(const Shape& whole) const {
    return {scale, {ceil_div(whole.elements(), block)}};
  }
  Shape whole_of(const Shape& payload_shape) const {
    return packed == 1 ? payload_shape : payload_shape.with_back(packed * payload_shape.back());
  }
};

// To nearest of 255 levels: 0 and both signs of 1 to 127. What comes back is within half a level of what
// went in, absmax of the block / 254. Zeros stay zeros. A block that holds an infinity or a NaN comes back
// as NaN throughout: what went wrong stays visible.
inline constexpr Format kInt8{.name = "int8",
                              .payload = Dtype::i8,
                              .block = 128,
                              .stored_payload = Stored::int8_codes,
                              .stored_scales = Stored::int8_scales,
                              .quantize = &quantize_int8_def,
                              .dequantize = &dequantize_int8_def};
// Sixteen levels (nf4_levels.h). Two codes make a byte, the first in its upper half.
inline constexpr Format kNf4{.name = "nf4",
                             .packed = 2,
                             .block = 64,
                             .stored_payload = Stored::nf4_codes,
                             .stored_scales = Stored::nf4_scales,
                             .dequantize = &dequantize_nf4_def};
// 256 levels, fine near zero and near one (codebook.h), with or without a sign: 8-bit optimizer state.
inline constexpr Format kDynamic8{.name = "dynamic8", .block = 256};

std::span<const Format* const> formats();

// --- weights -------------------------------------------------------------------------------------

// The format of a value that holds codes or scales of a stored weight.
const Format& format_of(Stored stored);
bool is_scales(Stored stored);

// Is a tensor made of whole blocks? Its rows begin at whole bytes, whatever the format.
inline bool has_whole_blocks(const Format& format, const Shape& tensor) {
  return tensor.elements() % format.block == 0 && tensor.back() % 2 == 0;
}

// Between elements of a weight and bytes of the value that holds its codes or scales.
int64_t stored_bytes(Stored stored, int64_t elements);
int64_t stored_elements(Stored stored, int64_t bytes);
// How many parameters so many elements of the value are; scales are none.
int64_t stored_parameters(Stored stored, int64_t elements);

}  // namespace snug::ops
