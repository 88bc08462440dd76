// Programs as text: what reviews, golden tests and bug reports show. Everything that a module holds
// is in it.
//
//   module "tiny" placed
//   arena device 98,560 bytes
//
//   layers
//     L0  h.0
//
//   shared
//     %wte     f32[256,64]  params  persistent       @0  init normal(0.02)  saved "wte.weight"
//     %tokens  i32[2,16]    inputs  step        @65,536
//
//   program eval  role evaluation
//     forward
//     0  embed: embedding(tokens=%tokens, weight=%wte)
//          out -> %embed   f32[2,16,64]  activations  live 0..1  @65,792
//     1  h.0.norm: rms_norm(x=%embed, weight=%norm) {eps=1e-06}  L0
//          y    -> %h.0.norm.y     f32[2,16,64]  activations  in %embed
//          rstd -> %h.0.norm.rstd  f32[32]       activations  live 1..1  @73,984
//
//   step
//     run eval
//
// An op's line may end with its layer (L0), its lane (on copy_in), its predicate (if %finite), what
// else it waits for (after (a, b)), what it repeats (clone of a) and what it differentiates
// (backward of a). A value's line says where its bytes are: its own (live, @offset), or another's
// (in %x: in place; writes %grad: the next version of a shared value; of %x: a view), +elements
// into it; and whose gradient, master or optimizer state it is (for %w). Names with unusual
// characters are quoted; # starts a comment.
//
// Values that no op touches are not part of a program and are not printed.
#pragma once

#include <string>
#include <string_view>

#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

std::string print(const Module& module);

// print(parse(print(m))) == print(m). Throws bad_input with the line and what was expected there;
// never anything else, whatever the text. What it gives is well-formed as text only: verify() says
// whether it is a sound program.
Module parse(std::string_view text, Registry registry);

}  // namespace snug
