// A trained model as a directory that `transformers` opens, and weights read from such a directory.
//
//   ValuePieces pieces(executor);
//   save_model(module, pieces_of(pieces), {.directory = "out", .config_json = ...});
//   load_model(module, into(pieces), CheckpointReader("out"));
//
// Bytes stream between the file and a value's space in pieces: no tensor is held in between.
// The module's persistent values name these tensors: Param::checkpoint maps names to dense parts of
// a parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_directory.h"
#include "formats/safetensors_checkpoint.h"
#include "formats/safetensors_writer.h"
#include "ir/program.h"
#include "runtime/value_pieces.h"
#include "settings/recipe.h"

namespace snug {

// One tensor of the saved model: a dense part of a parameter, of all its shards. Where a file has
// rows in another order than the parameter, a tensor is several such pieces, in the file's order.
struct SavedTensor {
  ValueId value;
  std::string name;
  Type type;           // of the tensor: the parameter's numbers, however they are stored
  int64_t first = 0;   // the tensor's element that the piece begins with
  int64_t offset = 0;  // bytes from the parameter's first
  int64_t bytes = 0;
  Stored stored = Stored::plain;

  ValuePart part() const { return {value, offset, bytes}; }
};
// Some bytes of a parameter's whole, as far as one rank's shard has them.
struct ShardPart {
  int64_t skipped = 0;  // of them, that come before
  int64_t offset = 0;   // in the shard
  int64_t bytes = 0;    // 0: it has none
};
ShardPart in_shard(const Value& value, const ValuePart& of_whole);
// The same of another rank's shard, where all are as large.
ShardPart in_shard(const Value& value, const ValuePart& of_whole, int rank);
std::vector<SavedTensor> saved_tensors(const Module& module, Part part = Part::model);
// Of all of them.
int64_t saved_bytes(const Module& module, Part part = Part::model);
// Values that consist of saved tensors: those that load_model fills to the last byte.
std::set<ValueId> loaded_values(const Module& module, Part part = Part::model);

// The type in which weights are saved: the master's where there is one.
inline Dtype saved_dtype(const Recipe& recipe) {
  return recipe.master ? Dtype::f32 : recipe.precision;
}

// Calls back with a part's bytes, one piece after another.
using PiecesOf = std::function<void(const ValuePart&, const LookAtPiece&)>;
using MakePieces = std::function<void(const ValuePart&, const MakePiece&)>;
inline PiecesOf pieces_of(ValuePieces& pieces) {
  return [&](const ValuePart& part, const LookAtPiece& visit) { pieces.look(part, visit); };
}
inline MakePieces into(ValuePieces& pieces) {
  return [&](const ValuePart& part, const MakePiece& fill) { pieces.make(part, fill); };
}

// The part that a run with this recipe trains, and saves at its end.
inline Part trained_part(const Recipe& recipe) {
  return recipe.adapters.on() ? Part::adapter : Part::model;
}

struct SaveOptions {
  std::filesystem::path directory;       // made where it is missing
  std::string config_json;               // the text of config.json
  std::string generation_config_json;    // empty: a copy, or one that says "as config.json does"
  std::string run_toml;                  // the text of run.toml; empty: none
  std::filesystem::path tokenizer_from;  // a directory to copy tokenizer files from; may be empty
  int64_t max_shard_bytes = kMaxShardBytes;
};

// Of any tensors.
void save_tensors(std::span<const TensorToWrite> tensors, const SaveOptions& options);

// One rename commits (checkpoint/model_directory.h): a reader, a kill and a power cut at any time
// find the old model or the new one, whole. Other files of the directory stay; weights of an
// earlier save go. Throws bad_input when it cannot write, and then the directory is as it was.
void save_model(const Module& module, const PiecesOf& pieces_of, const SaveOptions& options);

// Bytes of a read: a block stays in a core's cache while it is converted and checked.
constexpr int64_t kReadBlockBytes = int64_t{1} << 20;

// Names under which a file may hold a tensor, the usual one first.
using Spellings = std::function<std::vector<std::string>(std::string_view tensor)>;

// An adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors. Committed as a
// model is.
struct SaveAdapterOptions {
  std::filesystem::path directory;
  std::string config_json;  // the text of adapter_config.json
  std::string run_toml;
};
void save_adapter(const Module& module, const PiecesOf& pieces_of,
                  const SaveAdapterOptions& options);
// The text of adapter_config.json. `base`: the name or directory of the model.
std::string adapter_config_json(const Module& module, const Adapters& adapters,
                                const std::string& base);

// May what is read have tensors or values that the module does not have? Those of other stages of a
// pipeline.
enum class HasMore : uint8_t { no, yes };
inline HasMore has_more(const Mesh& mesh) { return mesh.pp > 1 ? HasMore::yes : HasMore::no; }

// Throws bad_input, as load_model would, when tensors are missing or have other shapes.
void check_weights(const Module& module, const CheckpointReader& weights,
                   const Spellings& spellings = {}, Part part = Part::model,
                   HasMore more = HasMore::no);

// Fills every value that has a checkpoint part, converting between float types (to nearest, ties to
// even). Throws bad_input before anything is filled when tensors are missing or have other shapes,
// and at the first tensor that holds an infinity or a NaN.
// Tensors that the model has no use for are logged.
// An adapter's tensors all have a place, or it is another model's.
void load_model(const Module& module, const MakePieces& into, const CheckpointReader& weights,
                const Spellings& spellings = {}, Part part = Part::model,
                HasMore more = HasMore::no);

}  // namespace snug
