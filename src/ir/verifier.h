// Proves that a module is sound, or throws an internal error that names program, op and value. Runs
// after every pass in tests and once before a plan runs: about 25 ms for 10,000 ops.
//
//   verify(module);          // what holds at every level, and what the module's own level promises
//   verify_ranks(modules);   // that the ranks of a job never deadlock
//
// At every level: ports and types agree with the OpDef; each local is made once, before it is read;
// views stay inside their bases; names are unique; an op stays in one space unless it is there to
// cross; a persistent value is written only by an op that must alias it or copies it from
// another space; an in-place write is granted by the OpDef; no op reads a version whose bytes have
// been overwritten since.
// Step: scratch is there and large enough; lifetimes are what the order of the ops asks for.
// Placed: offsets are aligned and inside the arena; values alive at once never share a byte.
#pragma once

#include <span>
#include <string>

#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

void verify(const Module& module, Backend backend = Backend::cpu);

// That the ranks of a job come to the end of every program, whatever their lanes' timing: each
// collective meets those of all ranks of its group, of the same name, kind, number and types, and
// each message that is sent is taken. Throws an internal error that names program, lane, ranks, ops
// and what each of them does instead.
//
// Modules by rank. A collective is for all ranks, or for `ranks` of them that are `stride` apart: its
// attributes.
void verify_ranks(std::span<const Module* const> ranks);

// A line for each op that goes to other ranks, in list order. Where all ranks of a job have the same,
// and no messages, none waits for ever: take the first collective that has not ended; on each rank
// it waits for earlier ops alone, and those that go to other ranks have ended.
std::string collectives_text(const Module& module);

}  // namespace snug
