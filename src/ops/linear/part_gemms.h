// What the kernels of linear_parts share on either backend: a block of columns of what is packed.
#pragma once

#include "ops/linear/linear_parts.h"

namespace snug::ops {

// `tensor` from an element on.
inline std::byte* element_of(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.data) + element * size_of(tensor.type->dtype);
}
inline const std::byte* element_of_input(const KernelArgs& a, size_t port, int64_t element) {
  return a.has(port) ? element_of(a.in(port), element) : nullptr;
}

// fn(part) for those that inputs reach, in order.
template <typename Fn>
void for_each_reached(const KernelArgs& a, int64_t r, Fn&& fn) {
  for (const LinearPart& part : parts_of(a.attrs, r)) {
    if (part.reached) fn(part);
  }
}

}  // namespace snug::ops
