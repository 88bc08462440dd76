// What a tokenizer does to text before it looks for words: normal forms, small letters, spaces.
//
//   const Normalizer normalizer = Normalizer::read(part);
//   normalizer.apply(text, true, buffers);   // the text itself where nothing is done to it
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/json_part.h"

namespace snug {

class NormalStep {
 public:
  virtual ~NormalStep() = default;
  // Appends to `out`. `begins`: the text is not the rest of one that was cut.
  virtual void apply(std::string_view text, bool begins, std::string& out) const = 0;
  virtual bool skips_ascii() const { return false; }  // ASCII stays as it is
  // Text may be cut before an ASCII character, and its parts normalized apart.
  virtual bool may_be_cut() const { return true; }
};

class Normalizer {
 public:
  Normalizer() = default;  // does nothing
  // Throws bad_input for a part that is not understood, a usage error for one that needs a library
  // that this build does not have.
  static Normalizer read(const JsonPart& part);

  struct Buffers {
    std::string one, other;
  };
  // Valid as long as the text and the buffers.
  std::string_view apply(std::string_view text, bool begins, Buffers& buffers) const;
  bool may_be_cut() const;

 private:
  void add(const JsonPart& part);

  std::vector<std::unique_ptr<const NormalStep>> steps_;
};

}  // namespace snug
