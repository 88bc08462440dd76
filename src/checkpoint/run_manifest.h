// The manifest of a run's checkpoint: manifest.json, next to its bytes. Enough to resume: where the
// run was, everything it was told and chose, and which pieces of state there are.
//
//   const RunManifest manifest = parse_manifest(text, "runs/a/step-00000100/manifest.json");
//   manifest.step;   manifest.pieces.front().checksum;
//
// It carries a checksum of itself.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/fingerprint.h"
#include "ir/value.h"
#include "snug/options.h"

namespace snug {

// Next to the manifest: of a run of one rank, and of each rank of a job.
constexpr const char* kStateFile = "state.safetensors";
std::string state_file(int64_t rank, int64_t ranks);  // "state-00002.safetensors"

// One persistent value, or one rank's shard of it.
struct SavedPiece {
  std::string name;
  Type type;             // its own: a shard is a row of elements
  std::string checksum;  // of its bytes, base/checksum.h
  std::string file = kStateFile;
  Shape shard_of = {};  // of a shard: the shape of the whole value
  int64_t first = 0;    // and its first element there
  // Of a rank's part of a parameter that ranks cut: where its elements are in the whole. The piece
  // is then all of that part, or a shard of it, and `first` counts there.
  std::vector<Box> boxes = {};

  TensorCut cut() const { return {.whole = shard_of, .boxes = boxes}; }
  const Shape& whole() const { return shard_of.rank() == 0 ? type.shape : shard_of; }
  friend bool operator==(const SavedPiece&, const SavedPiece&) = default;
};

struct RunManifest {
  std::string run;       // whose checkpoint it is: made when a run begins
  int64_t step = 0;      // optimizer steps done
  int64_t position = 0;  // of the data: the next sample
  int64_t skipped = 0;   // steps in a row that nothing was learned from
  // Where steps began whose loss was not finite: they are left out from then on (--on-nan
  // rollback).
  std::vector<int64_t> bad = {};
  std::string device;  // that it ran on: "cpu", "NVIDIA H200"
  Options asked;       // as the run was told, with what it did not leave open
  Options settled;     // the same with everything that was chosen
  DataFingerprint data;
  std::vector<SavedPiece> pieces;  // in the order of the files
};

std::string manifest_text(const RunManifest& manifest);
// Throws bad_input, naming `where`, for anything that manifest_text would not have written, and for
// other versions.
RunManifest parse_manifest(std::string_view text, std::string_view where);

// Pieces alone: what a rank tells the one that writes the manifest. Throws bad_input as
// parse_manifest does.
std::string pieces_text(std::span<const SavedPiece> pieces);
std::vector<SavedPiece> parse_pieces(std::string_view text);

// Every option by its name. What is there and unknown, or of another type, is refused as bad_input.
nlohmann::ordered_json options_json(const Options& options);
Options options_from_json(const nlohmann::ordered_json& json);

}  // namespace snug
