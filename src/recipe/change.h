// A change to the options of a run, typed. The search, the advice and the ladder make changes;
// flags are only printed from them, never read back.
//
//   const Change lean{{"precision", "bf16"}, {"master", "none"}};
//   flags_of(lean);                  // "--precision bf16 --master none"
//   Options o = changed(options, lean + Change{{"accum", 2}});
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "snug/options.h"

namespace snug {

// One option and its new value.
struct OptionValue {
  using Value = std::variant<bool, int64_t, double, std::string>;

  OptionValue(std::string_view key, bool to) : option(key), value(to) {}
  OptionValue(std::string_view key, int to) : option(key), value(static_cast<int64_t>(to)) {}
  OptionValue(std::string_view key, int64_t to) : option(key), value(to) {}
  OptionValue(std::string_view key, double to) : option(key), value(to) {}
  OptionValue(std::string_view key, const char* to) : option(key), value(std::string(to)) {}
  OptionValue(std::string_view key, std::string to) : option(key), value(std::move(to)) {}

  std::string option;  // as each_option spells it
  Value value;
  friend bool operator==(const OptionValue&, const OptionValue&) = default;
};

class Change {
 public:
  Change() = default;
  Change(std::initializer_list<OptionValue> settings) : settings_(settings) {}

  bool empty() const { return settings_.empty(); }
  bool sets(std::string_view option) const;
  const std::vector<OptionValue>& settings() const { return settings_; }

  Change& operator+=(const Change& more);  // what is added wins
  friend Change operator+(Change a, const Change& b) { return a += b; }
  friend bool operator==(const Change&, const Change&) = default;

 private:
  std::vector<OptionValue> settings_;
};

// As it is typed: "--batch 4 --accum 2"; "" of no change.
std::string flags_of(const Change& change);

// Every setting is one of ours: an unknown option, or a value of another type, is an internal
// error.
Options changed(Options options, const Change& change);

// The number that flags show of `value`, so that what is shown is what runs.
double as_shown(double value);

}  // namespace snug
