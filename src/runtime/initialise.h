// Gives every shared value its first content: a persistent one from its initialiser, the seed and
// its name alone, the others zeros.
#pragma once

#include <cstdint>
#include <set>

#include "runtime/executor.h"

namespace snug {

// `loaded`: values whose every byte is read from a file afterwards, which get nothing here.
void initialise(Executor& executor, uint64_t seed, const std::set<ValueId>& loaded = {});

// Computes what persists in addition to its source: to be called after initial or loaded values are
// in place. Runs the program `load` where the module has one.
void derive(Executor& executor);

// Makes the updates that the next step would make on its way: to be called before anything but a
// step reads the parameters. Runs the program `flush` where the module has one.
void flush_updates(Executor& executor);

}  // namespace snug
