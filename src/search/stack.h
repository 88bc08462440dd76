// A model as a stack of layers that are alike: the same forward pass at any depth, so that what is
// asked of a layer is asked of a shallow one.
//
//   const auto at = [=](int32_t layers) { return model.with_layers(layers).forward(build); };
//   const Stack stack{.layers = 126, .forward = at};
//   Module module = compile("shallow", stack.forward(stack.depth(3)), recipe);
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "ir/forward.h"

namespace snug {

struct Stack {
  int32_t layers = 0;
  std::function<ForwardBuilder(int32_t layers)> forward;

  ForwardBuilder whole() const { return forward(layers); }
  int32_t depth(int32_t enough) const { return std::min(layers, enough); }
};

// Of a stack of `depth` layers, the one that is like `layer` of a stack of `layers`: the
// first and the last are like the first and the last, the middle one is like all between them.
constexpr int32_t layer_like(int32_t layer, int32_t depth, int32_t layers) {
  const int32_t middle = depth / 2;
  if (layer < middle) return layer;
  const int32_t above = depth - middle - 1;
  return layer >= layers - above ? layer - (layers - depth) : middle;
}

// How many layers of the whole stack a layer of the shallow one is like.
constexpr int64_t times_like(int32_t layer, int32_t depth, int32_t layers) {
  return layer == depth / 2 ? layers - depth + 1 : 1;
}

}  // namespace snug
