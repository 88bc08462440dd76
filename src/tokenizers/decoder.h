// Tokens back to text.
//
//   const Decoder decoder = Decoder::read(part);
//   decoder.text({"\u2581two", "\u2581words"});   // "two words"
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizers/json_part.h"

namespace snug {

class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

class Decoder {
 public:
  Decoder() = default;  // tokens with a space between two, as the package has it
  // Throws bad_input for a part that is not understood.
  static Decoder read(const JsonPart& part);

  std::string text(std::vector<std::string> tokens) const;

 private:
  void add(const JsonPart& part);

  std::vector<std::unique_ptr<const DecodeStep>> steps_;
  bool read_ = false;
};

}  // namespace snug
