#include "models/parts/inputs.h"

#include <algorithm>

namespace snug {

Type Input::type(const Sizes& sizes) const {
  std::vector<int64_t> dims;
  for (const Size size : shape)
    dims.push_back(size == Size::B ? sizes.B : size == Size::T ? sizes.T : sizes.C);
  return {dtype, Shape(dims)};
}

const Input* find_input(const std::vector<Input>& inputs, Input::Source source) {
  const auto found = std::ranges::find(inputs, source, &Input::source);
  return found == inputs.end() ? nullptr : &*found;
}

}  // namespace snug
