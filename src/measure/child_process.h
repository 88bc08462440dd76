// Another program, run to its end with its output caught.
//
//   const ChildEnded peer = run_child({"python3", script, "--steps", "10"});
#pragma once

#include <string>
#include <vector>

namespace snug {

struct ChildEnded {
  int code = -1;  // exit code; -1: a signal ended it
  std::string out, err;
};

// Looks the program up on the PATH; its input is empty. Throws a usage error when it cannot be
// started.
ChildEnded run_child(const std::vector<std::string>& command);

}  // namespace snug
