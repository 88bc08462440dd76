// What a run prints: results on stdout, text for the person at the terminal on stderr. Printing
// never ends a run: nothing here throws, and lost results are reported once, at the end.
//
//   print("{}\n", report.json);
//   log("model and configuration are in {}", out);
//   show_status("trying --batch 64");   // until the next line of any kind
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace snug {

// Opens /dev/null in place of a closed stdin, stdout or stderr, so that no file gets their numbers.
// To be called before any file is opened.
void open_standard_streams();

void log_line(std::string_view text);
// Several lines; control characters are escaped in each.
void log_text(std::string_view text);
// Only results and errors from now on: log and status say nothing.
void silence_log();
// No results either: of a rank that is not to print.
void silence_results();
// An error's line, which is never silenced.
void error_line(std::string_view text);
// The last line of a terminal, replaced by whatever comes next; nothing where stderr is a file.
void show_status(std::string_view text);
void clear_status();

void print_text(std::string_view text);
void flush_results();
// Why results were lost on their way to stdout; empty: they were not, or their reader left early.
std::string why_results_were_lost();

bool stderr_is_terminal();
bool stdout_is_terminal();

template <typename... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace snug
