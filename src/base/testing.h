// For tests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/notes.h"
#include "base/text.h"

namespace snug::testing {

// An environment variable has this value, here and for child processes, until the end of scope.
class Environment {
 public:
  Environment(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    ::setenv(name_.c_str(), value.c_str(), /*overwrite=*/1);
  }
  ~Environment() {
    if (before_) {
      ::setenv(name_.c_str(), before_->c_str(), /*overwrite=*/1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

// The lines that are noted until the end of scope.
class NotesTaken {
 public:
  NotesTaken()
      : before_(tell_notes_to(
            {.line = [this](std::string_view line) { text_ += std::string(line) + "\n"; }})) {}
  ~NotesTaken() { tell_notes_to(std::move(before_)); }
  NotesTaken(const NotesTaken&) = delete;
  NotesTaken& operator=(const NotesTaken&) = delete;

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  NoteListener before_;
};

// A line of /proc/self/status, in bytes: "VmRSS:" is what this process has resident, "RssAnon:" what
// no file backs of it. -1 where there is none.
inline int64_t status_bytes(std::string_view name) {
  for (const std::string& line : split(read_file("/proc/self/status"), '\n'))
    if (line.starts_with(name)) return std::stoll(line.substr(name.size())) * 1024;
  return -1;
}

}  // namespace snug::testing
