// Words for the person at the terminal. They go to stderr; results go to stdout.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace snug {

void log_line(std::string_view text);
bool stderr_is_terminal();
bool stdout_is_terminal();

template <typename... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace snug
