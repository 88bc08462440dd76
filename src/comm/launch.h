// `snug train --ranks N`: starts the ranks of a job on this machine, passes signals on, and ends when
// all of them have.
//
//   return launch({.command = {"/proc/self/exe", "train", ...}, .ranks = 4});
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace snug {

// While it lives, signals wait until a launcher takes them. Threads that are started meanwhile hold
// them too; those of before take some away, and what they take is lost.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  const sigset_t& held() const { return held_; }
  const sigset_t& mask_before() const { return mask_before_; }

 private:
  sigset_t held_{}, mask_before_{};
};

struct Launch {
  std::vector<std::string> command;  // every rank's: a program's path and its words
  int ranks = 1;
  bool show_all = false;  // every rank's lines, after its name; else rank 0's alone
  std::vector<std::string> environment = {};  // "NAME=VALUE", of every rank
  double grace = 6;  // seconds for the other ranks to end when one has failed
};

// The exit code of the rank that failed first, 0 where none did; 5 where a signal ended it. Where that
// was a signal passed on (the second Ctrl-C), this process ends by it too.
int launch(const Launch& launch, const HeldSignals& signals = {});

// In a rank: this process ends with the one that started it.
void end_with_launcher();

}  // namespace snug
