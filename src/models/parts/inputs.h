// What a model is fed for each micro-batch. The model declares it; programs, the data and what is
// fed follow the declaration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/type.h"

namespace snug {

struct Input {
  // Where its numbers come from: a row's tokens; what each token or row should give (a negative one
  // does not count); where the sample of each token begins in a packed row; a row's features.
  enum class Source : uint8_t { tokens, targets, starts, features };
  // Sizes of a shape: rows of a micro-batch, tokens and features of a row.
  enum class Size : uint8_t { B, T, C };
  struct Sizes {
    int64_t B = 0, T = 0, C = 0;
  };

  std::string name;  // of its value in programs
  Source source = Source::tokens;
  Dtype dtype = Dtype::i32;
  std::vector<Size> shape;

  Type type(const Sizes& sizes) const;
};

// The one that is fed from `source`, or nullptr.
const Input* find_input(const std::vector<Input>& inputs, Input::Source source);

}  // namespace snug
