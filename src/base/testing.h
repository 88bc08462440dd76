// For tests.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

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

}  // namespace snug::testing
