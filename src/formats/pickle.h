// A pickle as plain data: numbers, text, bytes, lists, tuples and dicts, of protocols 0 to 5.
// Nothing in it is ever executed: an opcode that would name, make or call an object is refused by
// its name and offset. What the memo shares stays shared, so a value may be reached many times, and
// from inside itself: a visitor counts values and does not recurse.
//
//   const Pickle pickle = read_pickle("snapshot.pickle");
//   const PickleValue segments = pickle.find(pickle.root(), "segments");
//   for (const PickleValue segment : pickle.items(segments)) ...
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

enum class PickleKind : uint8_t { none, boolean, integer, real, text, bytes, list, tuple, dict };

// "a list", "an integer"
std::string_view words_of(PickleKind kind);

// One value, eight bytes: its kind and a number, or the place of what it holds.
class PickleValue {
 public:
  PickleValue() = default;

  PickleKind kind() const { return static_cast<PickleKind>(bits_ & 15); }
  bool is(PickleKind kind_asked) const { return kind() == kind_asked; }
  // Equal for one shared object, whatever leads to it.
  uint64_t identity() const { return bits_; }
  friend bool operator==(const PickleValue&, const PickleValue&) = default;

 private:
  friend class Pickle;
  friend class PickleReader;
  PickleValue(PickleKind kind, uint64_t payload)
      : bits_(payload << 4 | static_cast<uint64_t>(kind)) {}
  uint64_t payload() const { return bits_ >> 4; }

  uint64_t bits_ = 0;  // none
};

class Pickle {
 public:
  PickleValue root() const { return root_; }
  int64_t file_bytes() const { return file_bytes_; }

  // Each throws bad_input where the value is of another kind, and says which.
  int64_t integer(PickleValue value) const;
  double real(PickleValue value) const;  // an integer too
  bool boolean(PickleValue value) const;
  std::string_view text(PickleValue value) const;
  std::string_view bytes(PickleValue value) const;
  std::span<const PickleValue> items(PickleValue value) const;  // of a list or a tuple
  // Key, value, key, value, ... of a dict; of equal keys the last counts.
  std::span<const PickleValue> pairs(PickleValue value) const;

  // What a dict has at this key; a default value (none) where it has nothing. Looks at every key.
  PickleValue find(PickleValue dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::string name_;  // for sentences
  int64_t file_bytes_ = 0;
  PickleValue root_;
  std::deque<std::string> texts_;
  std::deque<std::vector<PickleValue>> containers_;
  std::vector<int64_t> integers_;  // those that 59 bits do not hold
  std::vector<double> reals_;
};

struct PickleLimits {
  int64_t memory = int64_t{4} << 30;  // bytes of all that is kept
};

// Throws bad_input where the file is no pickle of plain data, ends too early, or needs more memory
// than the limit. Reads in blocks.
Pickle read_pickle(const std::filesystem::path& path, const PickleLimits& limits = {});

}  // namespace snug
