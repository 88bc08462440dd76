// A reference's numbers as the bytes that kernels read, and back.
#pragma once

#include <cstring>
#include <vector>

#include "ir/op_def.h"
#include "ir/visit_dtype.h"

namespace snug {

constexpr size_t kSeveralThreads = 1 << 16;  // elements

inline std::vector<std::byte> to_bytes(const RefTensor& t) {
  std::vector<std::byte> bytes(static_cast<size_t>(t.type.bytes()));
  visit_dtype(t.type.dtype, [&](auto zero) {
#pragma omp parallel for if (t.v.size() > kSeveralThreads)
    for (size_t i = 0; i < t.v.size(); ++i) {
      const auto v = static_cast<decltype(zero)>(t.v[i]);
      std::memcpy(bytes.data() + i * sizeof v, &v, sizeof v);
    }
  });
  return bytes;
}

inline RefTensor from_bytes(const Type& type, const void* data) {
  RefTensor t{type, std::vector<double>(static_cast<size_t>(type.shape.elements()))};
  visit_dtype(type.dtype, [&](auto zero) {
#pragma omp parallel for if (t.v.size() > kSeveralThreads)
    for (size_t i = 0; i < t.v.size(); ++i) {
      auto v = zero;
      std::memcpy(&v, static_cast<const std::byte*>(data) + i * sizeof v, sizeof v);
      t.v[i] = static_cast<double>(v);
    }
  });
  return t;
}

}  // namespace snug
