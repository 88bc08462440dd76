// Reads the lines of values for the parser: "%name  f32[2,16]  activations  live 0..9  @81,920".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ir/program.h"
#include "ir/scanner.h"

namespace snug {

// The enumerator of that name among the first `count`, by its name_of().
template <typename E>
std::optional<E> find_enum(std::string_view name, int count) {
  for (int i = 0; i < count; ++i) {
    if (name_of(static_cast<E>(i)) == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

template <typename E>
E enumerator(Scanner& scan, std::string_view what, int count) {
  const size_t mark = scan.mark();
  if (const auto e = find_enum<E>(scan.word(what), count)) return *e;
  scan.rewind(mark);
  throw scan.expected(what);
}

// "L3", or "L-" for none. False when the word is no layer.
bool parse_layer(std::string_view word, int32_t& out);
// "M3": a letter and a number.
bool parse_numbered(char letter, std::string_view word, int32_t& out);

class ValueReader {
 public:
  ValueReader(Scanner& scan, Module& module) : scan_(scan), module_(module) {}

  // One line: a shared value, or a local of the module's last program. `layer` is what the line
  // leaves out.
  ValueId read(Scope scope, int32_t layer);
  // "%name" of a value that was read before.
  ValueId lookup();
  void forget_locals() { locals_.clear(); }

 private:
  using Names = std::unordered_map<std::string, ValueId>;

  void fact(Value& value);
  bool place_fact(Value& value, std::string_view word);
  bool param_fact(Value& value, std::string_view word);
  Shape shape();
  Init init();
  CheckpointPart checkpoint_part(const Value& value);
  int32_t op_number(std::string_view what);

  Scanner& scan_;
  Module& module_;
  Names shared_;
  Names locals_;  // of the program being read
};

}  // namespace snug
