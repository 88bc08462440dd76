// Programs. A Module holds the named programs of one rank over one table of values: shared values
// (parameters, state, the batch, gradients) are seen by all of them at the same offsets, locals
// belong to one. A step runs the programs in the order of Module::step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/value.h"

namespace snug {

struct OpDef;

// graph: values only. step: in-place granted, workspaces made, lanes and lifetimes known. placed:
// offsets known.
enum class Level : uint8_t { graph, step, placed };
std::string_view name_of(Level level);

enum class Phase : uint8_t { forward, backward, update };
std::string_view name_of(Phase phase);

// What a program is for. A step runs the training programs, then the update; `load` rounds masters
// to the parameters that training reads; `flush` makes the updates that the next step would make on
// its way; `other` is a program outside of training, a test's for example.
enum class ProgramRole : uint8_t {
  other,
  training_first,  // the first micro-batch: overwrites gradients and loss
  training_next,   // adds to them
  training_last,   // adds to them, and updates in backward or at its end
  evaluation,
  update,
  load,
  flush
};
constexpr int kProgramRoles = 8;
std::string_view name_of(ProgramRole role);
// The name of the program that compile makes for a role.
constexpr std::string_view program_name(ProgramRole role) {
  constexpr std::string_view names[kProgramRoles] = {
      "main", "micro_first", "micro_next", "micro_last", "eval", "update", "load", "flush"};
  return names[static_cast<size_t>(role)];
}
constexpr bool is_training(ProgramRole role) {
  return role >= ProgramRole::training_first && role <= ProgramRole::training_last;
}

// Ops refer to each other by name: names are unique in a program, and stable.
struct Op {
  const OpDef* def = nullptr;
  std::string name;
  std::vector<ValueId> inputs;  // by the OpDef's ports; an absent optional one is ValueId{}
  std::vector<ValueId> outputs;
  Attrs attrs;
  int32_t layer = kNoLayer;
  Phase phase = Phase::forward;
  std::string lane = "compute";
  ValueId predicate;  // i32 scalar: the op is skipped when it is 0
  ValueId workspace;  // step level: scratch of the size that the OpDef's cost asked for
  std::vector<std::string> after;  // earlier ops that it waits for beyond its data
  std::string clone_of;            // recompute: the forward op that this one repeats
  std::string backward_of;         // autodiff: the forward op that this one differentiates
  int32_t micro_batch = 0;         // of those that the program takes through the model
  int32_t chunk = 0;               // of its stage's layers, where a stage has several chunks
};

struct Program {
  std::string name;
  std::vector<Op> ops;
  ProgramRole role = ProgramRole::other;
  int64_t micro_batches = 1;  // that a run of it takes through the model, layer by layer
};

// `times` runs of the programs in order: repeat 3 { micro_next }.
struct Repeat {
  int64_t times = 1;
  std::vector<std::string> programs;
  friend bool operator==(const Repeat&, const Repeat&) = default;
};

struct Module {
  std::string name;
  Level level = Level::graph;
  std::vector<std::string> layers;  // by layer: the prefix of its names, "h.3"
  std::vector<Value> values;
  std::vector<Program> programs;
  std::vector<Repeat> step;
  int64_t arena_bytes[kSpaces] = {};  // placed level

  Value& operator[](ValueId id) { return values[static_cast<size_t>(id.index)]; }
  const Value& operator[](ValueId id) const { return values[static_cast<size_t>(id.index)]; }

  ValueId add(Value value);
  int32_t program_index(std::string_view wanted) const;  // -1 when there is none
  Program& program(std::string_view wanted);  // throws an internal error when there is none
  const Program& program(std::string_view wanted) const;

  // The last program of that role; -1 or an internal error when there is none.
  int32_t program_index(ProgramRole role) const;
  Program& program(ProgramRole role);
  const Program& program(ProgramRole role) const;

  // "attn.mix" of "h.3.attn.mix" in layer 3: the name that the same thing has in every such layer.
  std::string_view name_in_layer(std::string_view full, int32_t layer) const;

  ValueId find_shared(std::string_view wanted) const;  // none when there is none
  ValueId gradient_of(ValueId parameter) const;        // of it or its master; none when not trained
  ValueId root(ValueId id) const;                      // the value that owns the bytes
};

// How often a step runs the program.
int64_t runs_per_step(const Module& module, std::string_view program);

// A copy of `body` as a new program of that name: locals become new values, shared values stay
// shared. `suffix` is added to the names of values and ops. The caller appends the result to
// module.programs.
Program clone(Module& module, const Program& body, std::string name,
              const std::string& suffix = "");

// Drops the values that nothing refers to. Ids change.
void sweep_values(Module& module);

}  // namespace snug
