#include "ir/type.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace snug {
namespace {

struct DtypeFacts {
  std::string_view name;
  int64_t size;
};
constexpr std::array<DtypeFacts, 8> kDtypes{{{"f32", 4},
                                             {"f64", 8},
                                             {"bf16", 2},
                                             {"f16", 2},
                                             {"i8", 1},
                                             {"u8", 1},
                                             {"i32", 4},
                                             {"i64", 8}}};

}  // namespace

int64_t size_of(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].size; }
std::string_view name_of(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (rank_ > kMaxRank)
    throw internal_error("a shape of {} axes; at most {} are supported", rank_, kMaxRank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int64_t d : dims()) n = checked_mul(n, d, "a shape");
  return n;
}

int64_t Shape::rows() const {
  int64_t n = 1;
  for (int axis = 0; axis + 1 < rank_; ++axis) n = checked_mul(n, (*this)[axis], "a shape");
  return n;
}

Shape Shape::with_back(int64_t last) const {
  Shape out = *this;
  out.dims_[static_cast<size_t>(rank_ - 1)] = last;
  return out;
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(dims(), ",")); }

int64_t Type::bytes() const { return checked_mul(shape.elements(), size_of(dtype), "a value"); }
std::string Type::text() const { return fmt::format("{}{}", name_of(dtype), shape.text()); }

}  // namespace snug
