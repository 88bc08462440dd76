// The one error type. An error is thrown before step 0 wherever it can be; its sentence says what,
// where and with which numbers, its hint says what to do, and its code becomes the process's exit
// code.
//
//   throw bad_input("{}: tensor {} ends at byte {} of {}", path, name, end, size)
//       .hint("download it again");
#pragma once

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace snug {

enum class ExitCode : int {
  ok = 0,
  internal = 1,      // a bug in Snug: an invariant of ours does not hold
  usage = 2,         // wrong usage or configuration
  does_not_fit = 3,  // the plan needs more bytes than the budget
  bad_input = 4,     // an unreadable or damaged file
  device = 5,        // device or communication failure
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}

  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }
  Error hint(std::string text) && {
    hint_ = std::move(text);
    return std::move(*this);
  }

 private:
  ExitCode code_;
  std::string hint_;
};

template <typename... Args>
Error usage_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::usage, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error does_not_fit(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::does_not_fit, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error bad_input(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::bad_input, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error device_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::device, fmt::format(format, std::forward<Args>(args)...)};
}
template <typename... Args>
Error internal_error(fmt::format_string<Args...> format, Args&&... args) {
  return {ExitCode::internal, fmt::format(format, std::forward<Args>(args)...)};
}

// What f gives; nothing where it refuses: wrong usage, or more bytes than there are. Any other
// error is no answer, and goes on.
template <typename F>
auto unless_refused(F&& f) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage && error.code() != ExitCode::does_not_fit) throw;
    return std::nullopt;
  }
}

}  // namespace snug
