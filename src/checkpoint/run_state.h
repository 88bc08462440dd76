// Everything that a run carries from step to step, written and read back to the bit: parameters, or
// their masters where there are some, optimizer state, counts, the loss scale. What the program
// `load` makes from these is left out.
//
//   flush_updates(executor);
//   manifest.pieces =
//       save_run_state(module, run_state(module), pieces_of(pieces), folder / kStateFile);
//   load_run_state(module, into(pieces), RunStateReader(folder, manifest));
//
// A rank of a job writes its shards and a share of what all ranks have, into a file of its own. Any
// number of ranks read what they need of these.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/run_manifest.h"
#include "formats/safetensors.h"
#include "passes/mesh.h"

namespace snug {

// Frozen parameters are no part of it: they stay as the model has them.
bool is_frozen(const Value& value);
std::set<ValueId> frozen_values(const Module& module);
std::vector<ValueId> run_state(const Module& module);
int64_t run_state_bytes(const Module& module);           // on this rank
int64_t run_state_of_ranks_bytes(const Module& module);  // once, of all ranks together
// Those of these that a rank writes. All ranks have the same, in the same order.
// Of stages that have the same, the first one writes it.
std::vector<ValueId> saved_by_stage(const Module& module, std::span<const ValueId> state,
                                    const Mesh& mesh);
std::vector<ValueId> saved_by_rank(const Module& module, std::span<const ValueId> state,
                                   const Sharding& sharding, const Mesh& mesh = {});
// Those whose every byte load_run_state writes: what is padded is not among them.
std::set<ValueId> loaded_run_state(const Module& module);

// In this order; of a shard, what is of the value and not only room. Every update is made by now.
std::vector<SavedPiece> save_run_state(const Module& module, std::span<const ValueId> state,
                                       const PiecesOf& pieces_of,
                                       const std::filesystem::path& file);

// The values of a checkpoint, each whole in one piece or in several, read where and when they are
// asked for.
class RunStateReader {
 public:
  // Throws bad_input where the files have other pieces than the manifest, or are not there.
  RunStateReader(std::filesystem::path checkpoint, const RunManifest& manifest);

  // One piece of a value.
  struct Extent {
    SavedPiece piece;
    TensorEntry entry;
    int64_t begin() const { return piece.first * size_of(piece.type.dtype); }  // in the value
    int64_t end() const { return begin() + entry.bytes; }
  };
  // In the order of the value's bytes. None: there is no such value.
  std::span<const Extent> of(std::string_view value) const;
  const std::filesystem::path& checkpoint() const { return checkpoint_; }
  std::vector<std::string_view> values() const;

  // By the names of the module's values, which this outlives.
  PiecesOf pieces_of(const Module& module) const;
  // Throws bad_input at the first piece whose bytes are not those that were saved.
  void verify() const;
  void verify(const Extent& extent) const;

 private:
  std::filesystem::path checkpoint_;
  std::map<std::string, std::vector<Extent>, std::less<>> values_;
};

// Loads the module's part of each value. Throws bad_input, before anything is loaded, where the
// values are not those of the module, and at the first piece whose bytes are not those that were
// saved. Pieces that no rank reads whole are checked by one of them, each by another.
void load_run_state(const Module& module, const MakePieces& into, const RunStateReader& reader,
                    const Sharding& sharding = {}, HasMore more = HasMore::no);

}  // namespace snug
