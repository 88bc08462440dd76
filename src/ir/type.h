// What a value is: element type and shape. Row-major, dense unless a value says otherwise.
//
//   Type t{Dtype::f32, {8, 1024, 768}};   t.bytes() == 25'165'824;   t.text() == "f32[8,1024,768]"
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace snug {

enum class Dtype : uint8_t { f32, f64, bf16, f16, i8, u8, i32, i64 };

int64_t size_of(Dtype dtype);
std::string_view name_of(Dtype dtype);
std::optional<Dtype> parse_dtype(std::string_view name);
constexpr bool is_float(Dtype d) { return d <= Dtype::f16; }

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const {
    return dims_[static_cast<size_t>(axis < 0 ? axis + rank_ : axis)];
  }
  int64_t back() const { return (*this)[-1]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  int64_t elements() const;  // throws a usage error when it does not fit in 63 bits
  int64_t rows() const;      // elements of all axes but the last: x[..., C] read as [rows, C]
  Shape with_back(int64_t last) const;  // same, with another last axis
  std::string text() const;             // "[8,1024,768]"

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

struct Type {
  Dtype dtype = Dtype::f32;
  Shape shape;

  int64_t bytes() const;
  std::string text() const;
  friend bool operator==(const Type&, const Type&) = default;
};

}  // namespace snug
