#include "base/log.h"

#include <unistd.h>

#include <cstdio>

#include "base/text.h"

namespace snug {

void log_line(std::string_view text) { fmt::print(stderr, "{}\n", printable(text)); }
bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }
bool stdout_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

}  // namespace snug
