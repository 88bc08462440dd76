// From a dtype that is known at run time to the C++ type of its elements.
//
//   visit_dtype(type.dtype, [&](auto zero) { using T = decltype(zero); ... });
#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/half.h"
#include "ir/type.h"

namespace snug {

template <typename Fn>
decltype(auto) visit_dtype(Dtype dtype, Fn&& fn) {
  switch (dtype) {
    case Dtype::f32:
      return fn(float{});
    case Dtype::f64:
      return fn(double{});
    case Dtype::bf16:
      return fn(Bf16{});
    case Dtype::f16:
      return fn(F16{});
    case Dtype::i8:
      return fn(int8_t{});
    case Dtype::u8:
      return fn(uint8_t{});
    case Dtype::i32:
      return fn(int32_t{});
    case Dtype::i64:
      return fn(int64_t{});
  }
  throw internal_error("dtype {} has no element type", static_cast<int>(dtype));
}

}  // namespace snug
