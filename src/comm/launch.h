// `snug train --ranks N`: starts the ranks of a job on this machine, passes signals on, and ends when
// all of them have.
//
//   return launch({.command = {"/proc/self/exe", "train", ...}, .ranks = 4});
#pragma once

#include <string>
#include <vector>

namespace snug {

struct Launch {
  std::vector<std::string> command;  // every rank's: a program's path and its words
  int ranks = 1;
  bool show_all = false;  // every rank's lines, behind its name; else rank 0's alone
  std::vector<std::string> environment = {};  // "NAME=VALUE", of every rank
  double grace = 6;  // seconds for the other ranks to end when one has failed
};

// The exit code of the rank that failed first, 0 where none did; 5 where a signal ended it. Where that
// was a signal passed on (the second Ctrl-C), this process ends by it too.
int launch(const Launch& launch);

// In a rank: this process ends with the one that started it.
void end_with_launcher();

}  // namespace snug
