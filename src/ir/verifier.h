// Proves that a module is sound, or throws an internal error that names program, op and value. Runs
// after every pass in tests and once before a plan runs: about 25 ms for 10,000 ops.
//
//   verify(module);          // what holds at every level, and what the module's own level promises
//   verify_ranks(modules);   // that the ranks of a job speak to each other in step
//
// At every level: ports and types agree with the OpDef; each local is made once, before it is read;
// views stay inside their bases; names are unique; an op stays in one space unless it is there to
// cross; a persistent value is written only by an op that must alias it or brings it back from
// another space; an in-place write is granted by the OpDef; nobody reads a version whose bytes have
// been overwritten since.
// Step: scratch is there and large enough; lifetimes are what the order of the ops asks for.
// Placed: offsets are aligned and inside the arena; values alive at once never share a byte.
#pragma once

#include <span>

#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

void verify(const Module& module, Backend backend = Backend::cpu);

// Modules by coordinate on the axes that they use: the n-th is the peer n of a message. On each
// axis all ranks run the same collectives in the same order, and each message that is sent is
// received, with as many bytes.
void verify_ranks(std::span<const Module* const> ranks);

}  // namespace snug
