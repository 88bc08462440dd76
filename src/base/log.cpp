#include "base/log.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/text.h"

namespace snug {
namespace {

std::atomic<bool> silent{false};
std::atomic<bool> without_results{false};
std::atomic<bool> status_shown{false};
std::atomic<int> results_lost{0};  // errno of the first failure

// stderr is the last resort: what it does not take is dropped.
void write_error_stream(std::string_view text) {
  [[maybe_unused]] const size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
}

// As much as one line of the terminal takes: what goes on in the next could not be replaced.
std::string_view first_line_of(std::string_view text) {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return text;
  int columns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;  // a character
    if (begins && ++columns == size.ws_col) return text.substr(0, i);
  }
  return text;
}

void remember_failure() {
  int none = 0;
  results_lost.compare_exchange_strong(none, errno);
}

}  // namespace

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // A closed stdout becomes one that fails: its results are lost.
    ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void log_line(std::string_view text) {
  if (!silent) error_line(text);
}

void log_text(std::string_view text) {
  for (const std::string& line : split(text, '\n')) log_line(line);
}

void silence_log() { silent = true; }

void silence_results() { without_results = true; }

void error_line(std::string_view text) {
  clear_status();
  write_error_stream(printable(text) + "\n");
}

void show_status(std::string_view text) {
  if (silent || !stderr_is_terminal()) return;
  clear_status();
  flush_results();
  write_error_stream(first_line_of(text));
  status_shown = true;
}

void clear_status() {
  if (status_shown.exchange(false)) write_error_stream("\r\x1b[K");
}

void print_text(std::string_view text) {
  if (without_results) return;
  clear_status();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) remember_failure();
}

void flush_results() {
  if (std::fflush(stdout) != 0) remember_failure();
}

std::string why_results_were_lost() {
  flush_results();
  const int reason = results_lost;
  return reason == 0 || reason == EPIPE ? "" : std::strerror(reason);
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

}  // namespace snug
