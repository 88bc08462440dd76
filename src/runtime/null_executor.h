// Runs placed programs without a device: no kernel is called, but every read and write of bytes is
// followed. It fails when an op reads bytes that no op wrote or that another value has overwritten
// since, when it writes over what it reads, and when a shared value is overwritten: what a wrong
// lifetime, a wrong placement or a wrong in-place grant would look like.
//
//   NullRun run = run_null(module);  // one whole step, then the programs outside it; throws an
//                                    // internal error naming op, value and intruder
//   run.high_water[0] == module.arena_bytes[0]
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ir/program.h"

namespace snug {

struct NullRun {
  int64_t ops = 0;
  std::array<int64_t, kSpaces> high_water{};  // highest byte touched, plus one, per space
};

// With a seed, every program in a random order of those that its lanes allow.
NullRun run_null(const Module& module, std::optional<uint64_t> seed = {});

}  // namespace snug
