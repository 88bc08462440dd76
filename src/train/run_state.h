// Everything that a run carries from step to step, written and read back to the bit: parameters, or
// their masters where there are some, optimizer state, counts, the loss scale. What the program
// `load` makes from these is left out.
//
//   flush_updates(executor);
//   manifest.pieces =
//       save_run_state(module, run_state(module), pieces_of(pieces), folder / kStateFile);
//   load_run_state(module, into(pieces), folder, manifest);
#pragma once

#include <filesystem>
#include <set>
#include <vector>

#include "formats/safetensors.h"
#include "train/checkpoint.h"
#include "train/run_manifest.h"

namespace snug {

// Frozen parameters are no part of it: they stay as the model has them.
bool is_frozen(const Value& value);
std::set<ValueId> frozen_values(const Module& module);
std::vector<ValueId> run_state(const Module& module);
int64_t run_state_bytes(const Module& module);
// Those whose every byte load_run_state writes: what is padded is not among them.
std::set<ValueId> loaded_run_state(const Module& module);

// In this order. Every update is made by now.
std::vector<SavedPiece> save_run_state(const Module& module, std::span<const ValueId> state,
                                       const PiecesOf& pieces_of,
                                       const std::filesystem::path& file);

// Throws bad_input, before anything is loaded, where the pieces are not those of the module, and at
// the first piece whose bytes are not those that were saved.
void load_run_state(const Module& module, const MakePieces& into,
                    const std::filesystem::path& checkpoint, const RunManifest& manifest);

// Compares names and types with the manifest; verify_run_state also every byte. Throw bad_input as
// load_run_state does.
void check_run_state(const std::filesystem::path& checkpoint, const RunManifest& manifest);
void verify_run_state(const std::filesystem::path& checkpoint, const RunManifest& manifest);

// Parts of pieces, read where and when they are asked for.
class RunStateReader {
 public:
  // Throws bad_input as check_run_state does.
  RunStateReader(const std::filesystem::path& checkpoint, const RunManifest& manifest);
  // By the names of the module's values, which this outlives.
  PiecesOf pieces_of(const Module& module) const;

 private:
  std::filesystem::path checkpoint_;
  SafetensorsFile file_;
};

}  // namespace snug
