// A type as attributes, for ops that have no input to take it from: dtype = "f32", shape =
// "[8,1024]".
#pragma once

#include <charconv>
#include <vector>

#include "base/text.h"
#include "ir/op_def.h"

namespace snug::ops {

inline void set_type(Attrs& attrs, const Type& type) {
  attrs.set("dtype", std::string(name_of(type.dtype)));
  attrs.set("shape", type.shape.text());
}

inline Type type_from_attrs(const OpView& op) {
  const auto dtype = parse_dtype(op.attrs.s("dtype"));
  op.require(dtype.has_value(), "dtype '{}' is not known", op.attrs.s("dtype"));
  const std::string& text = op.attrs.s("shape");
  op.require(text.size() >= 2 && text.front() == '[' && text.back() == ']',
             "shape '{}' is not of the form [8,1024]", text);
  std::vector<int64_t> dims;
  const auto inside = std::string_view(text).substr(1, text.size() - 2);
  for (const std::string& part : inside.empty() ? std::vector<std::string>{} : split(inside, ',')) {
    int64_t dim = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), dim);
    op.require(error == std::errc{} && end == part.data() + part.size() && dim >= 0,
               "'{}' in shape '{}' is not a size", part, text);
    dims.push_back(dim);
  }
  op.require(dims.size() <= static_cast<size_t>(Shape::kMaxRank), "shape '{}' has over {} axes",
             text, Shape::kMaxRank);
  const Type type{*dtype, Shape(dims)};
  static_cast<void>(type.bytes());  // throws where the bytes do not fit in 63 bits
  return type;
}

}  // namespace snug::ops
