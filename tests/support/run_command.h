// Runs a program as a person would: in a directory, with its output caught, and never for ever.
//
//   Ended plan = run_snug({"plan", "gpt2", "--json"}, {.directory = dir.path()});
//   EXPECT_EQ(plan.code, 0) << plan.err;
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace snug {

struct RunOptions {
  std::filesystem::path directory = ".";
  std::chrono::seconds limit{60};  // then it is killed
  std::string interrupt_after;     // when this has appeared on stdout, Ctrl-C is sent once
  std::string interrupt_again;     // and once more, when this has appeared on stderr
  std::function<void(pid_t)> before_interrupt;  // may look at the process, which still runs
  int64_t address_space = 0;                    // bytes that the process may map; 0: any number
  std::vector<std::pair<std::string, std::string>> environment = {};  // in addition to our own
  bool terminal = false;  // stdout and stderr are one terminal: all text is in `out`
};

struct Ended {
  int code = -1;   // exit code; -1: a signal ended it, or the limit was reached
  int signal = 0;  // that ended it
  std::string out, err;
};

Ended run_command(const std::vector<std::string>& command, const RunOptions& options = {});

// The binary of this build.
std::string snug_binary();
Ended run_snug(std::vector<std::string> arguments, const RunOptions& options = {});

// The same as a line of the shell, in which "$@" is that binary with its arguments:
//   run_snug_in_shell("\"$@\" 2>/dev/full", {"models"});
Ended run_snug_in_shell(const std::string& line, std::vector<std::string> arguments,
                        const RunOptions& options = {});

}  // namespace snug
