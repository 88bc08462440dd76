// A change to the options of a run, typed. The search, the advice and the ladder make changes;
// flags are only printed from them, never read back.
//
//   const Change lean{{&Options::precision, ComputeType::bf16}, {&Options::master, Master::none}};
//   flags_of(lean);                  // "--precision bf16 --master none"
//   Options o = changed(options, lean + Change{{&Options::accum, 2}});
#pragma once

#include <any>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "settings/option.h"

namespace snug {

// One option and its new value.
struct OptionValue {
  template <typename T>
  OptionValue(T Options::*member, std::type_identity_t<T> to)
      : option(&option_of(member)), value(std::move(to)) {}

  const Option* option;
  std::any value;  // of the member's type

  template <typename T>
  const T& as() const {
    return std::any_cast<const T&>(value);
  }
  std::string text() const { return option->text_of(value); }
  friend bool operator==(const OptionValue& a, const OptionValue& b) {
    return a.option == b.option && a.option->equal(a.value, b.value);
  }
};

// The option as if it had not been given.
template <typename T>
OptionValue not_given(T Options::*member) {
  static const Options plain;
  return {member, plain.*member};
}

class Change {
 public:
  Change() = default;
  Change(std::initializer_list<OptionValue> settings) : settings_(settings) {}

  bool empty() const { return settings_.empty(); }
  bool sets(const Option& option) const { return find(option) != nullptr; }
  template <typename T>
  bool sets(T Options::*member) const {
    return sets(option_of(member));
  }
  // The value that it gives the option; nullptr where it does not.
  template <typename T>
  const T* value_of(T Options::*member) const {
    const OptionValue* found = find(option_of(member));
    return found == nullptr ? nullptr : &found->as<T>();
  }
  const std::vector<OptionValue>& settings() const { return settings_; }

  Change& operator+=(const Change& more);  // what is added wins
  friend Change operator+(Change a, const Change& b) { return a += b; }
  friend bool operator==(const Change&, const Change&) = default;

 private:
  const OptionValue* find(const Option& option) const;

  std::vector<OptionValue> settings_;
};

// As it is typed: "--batch 4 --accum 2"; "" of no change.
std::string flags_of(const Change& change);
Options changed(Options options, const Change& change);

// The number that flags show of `value`, so that what is shown is what runs.
double as_shown(double value);

}  // namespace snug
