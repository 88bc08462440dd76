#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/notes.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_directory.h"
#include "formats/peft_config.h"
#include "formats/peft_names.h"
#include "ir/tensor_cut.h"
#include "ops/quantize/format.h"

namespace snug {
namespace {

constexpr std::string_view kDefaultGenerationConfig = "{\n  \"_from_model_config\": true\n}\n";

void copy_companions(const std::filesystem::path& from, const StagedModel& to) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(from, ignored)) {  // a trained model is worth more than that
    note("{} is gone: the model is saved without its tokenizer", from.string());
    return;
  }
  for (const std::string& name : files_in(from))
    if (goes_with_a_model(name)) to.write(name, read_file(from / name));
}

std::vector<TensorToWrite> tensors_to_write(const Module& module, const PiecesOf& pieces_of,
                                            Part part) {
  const std::vector<SavedTensor> saved = saved_tensors(module, part);
  std::vector<TensorToWrite> tensors;
  for (size_t i = 0; i < saved.size();) {
    std::vector<ValuePart> pieces{saved[i].part()};
    const SavedTensor& tensor = saved[i++];
    for (; i < saved.size() && saved[i].first > 0; ++i) pieces.push_back(saved[i].part());
    tensors.push_back(
        {tensor.name, tensor.type, [&pieces_of, pieces = std::move(pieces)](const ByteSink& sink) {
           for (const ValuePart& piece : pieces) pieces_of(piece, sink);
         }});
  }
  return tensors;
}

// The bytes that so many elements of a parameter take in its value.
int64_t bytes_in(const Value& value, int64_t elements) {
  const Stored stored = value.param->stored;
  return stored == Stored::plain ? elements * size_of(value.type.dtype)
                                 : ops::stored_bytes(stored, elements);
}

// A part is dense only where padding, if any, comes after the parameter's last row.
void check_part(const Module& module, const Value& value, const CheckpointPart& part) {
  const auto rows_only = [](const Shape& shape) { return shape.dims().subspan(1); };
  const bool dense = value.padded.rank() <= 1 ||
                     (value.padded.rank() == value.type.shape.rank() &&
                      std::ranges::equal(rows_only(value.padded), rows_only(value.type.shape)));
  const int64_t end = checked_add(part.offset, part.shape.elements(), "a checkpoint part");
  const Type whole{value.type.dtype, logical_shape(module, value)};
  if (dense && part.offset >= 0 && bytes_in(value, end) <= whole.bytes()) return;
  throw internal_error("tensor {} {} at element {} is not a dense part of {} {}", part.name,
                       part.shape.text(), part.offset, value.name, value.type.text());
}

// Parts of one name, one after another, are pieces of one tensor.
Shape whole_tensor(std::span<const CheckpointPart> parts) {
  const std::string& name = parts.front().name;
  int64_t rows = 0;
  for (const CheckpointPart& part : parts) {
    if (part.name != name) break;
    if (part.shape.rank() > 0) rows += part.shape[0];
  }
  const Shape& piece = parts.front().shape;
  if (piece.rank() == 0) return piece;
  std::vector<int64_t> dims(piece.dims().begin(), piece.dims().end());
  dims[0] = rows;
  return Shape(dims);
}

ShardPart in_bytes(const Value& value, const ValuePart& of_whole, int64_t first) {
  const int64_t size = size_of(value.type.dtype);
  const int64_t elements =
      std::clamp<int64_t>(value.whole().elements() - first, 0, value.type.shape.elements());
  const int64_t begin = std::max(of_whole.offset, first * size);
  const int64_t end = std::min(of_whole.offset + of_whole.bytes, (first + elements) * size);
  if (end <= begin) return {};
  return {.skipped = begin - of_whole.offset, .offset = begin - first * size, .bytes = end - begin};
}

void add_tensors(const Module& module, ValueId id, std::vector<SavedTensor>& tensors) {
  const Value& value = module[id];
  const Stored stored = value.param->stored;
  const std::span parts = value.param->checkpoint;
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const CheckpointPart& part = parts[i];
    check_part(module, value, part);
    const bool goes_on = i > 0 && parts[i - 1].name == part.name;
    first = goes_on ? first + parts[i - 1].shape.elements() : 0;
    const Shape shape = goes_on ? tensors.back().type.shape : whole_tensor(parts.subspan(i));
    tensors.push_back({.value = id,
                       .name = part.name,
                       .type = {stored == Stored::plain ? value.type.dtype : Dtype::f32, shape},
                       .first = first,
                       .offset = bytes_in(value, part.offset),
                       .bytes = bytes_in(value, part.shape.elements()),
                       .stored = stored});
  }
}

}  // namespace

ShardPart in_shard(const Value& value, const ValuePart& of_whole) {
  return in_bytes(value, of_whole, value.shard_first);
}

ShardPart in_shard(const Value& value, const ValuePart& of_whole, int rank) {
  return in_bytes(value, of_whole, rank * value.type.shape.elements());
}

std::vector<SavedTensor> saved_tensors(const Module& module, Part part) {
  std::vector<SavedTensor> tensors;
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    if (value.scope != Scope::persistent || !value.owns_bytes() || !value.param) continue;
    if (value.param->adapter != (part == Part::adapter)) continue;
    add_tensors(module, {static_cast<int32_t>(i)}, tensors);
  }
  return tensors;
}

int64_t saved_bytes(const Module& module, Part part) {
  int64_t bytes = 0;
  for (const SavedTensor& tensor : saved_tensors(module, part))
    bytes = checked_add(bytes, tensor.bytes, "the saved model");
  return bytes;
}

std::set<ValueId> loaded_values(const Module& module, Part part) {
  std::map<ValueId, int64_t> bytes;
  for (const SavedTensor& tensor : saved_tensors(module, part)) bytes[tensor.value] += tensor.bytes;
  std::set<ValueId> loaded;
  for (const auto& [id, covered] : bytes)
    if (covered == module[id].storage_bytes()) loaded.insert(id);
  return loaded;
}

void save_model(const Module& module, const PiecesOf& pieces_of, const SaveOptions& options) {
  save_tensors(tensors_to_write(module, pieces_of, Part::model), options);
}

void save_tensors(std::span<const TensorToWrite> tensors, const SaveOptions& options) {
  StagedModel model(options.directory);
  write_checkpoint(model.folder(), tensors, options.max_shard_bytes, model.shard_prefix());
  model.write(kGenerationConfigFile, kDefaultGenerationConfig);
  if (!options.tokenizer_from.empty()) copy_companions(options.tokenizer_from, model);
  if (!options.generation_config_json.empty())
    model.write(kGenerationConfigFile, options.generation_config_json);
  if (!options.run_toml.empty()) model.write(kRunFile, options.run_toml);
  model.write(kConfigFile, options.config_json);
  model.commit();
}

void save_adapter(const Module& module, const PiecesOf& pieces_of,
                  const SaveAdapterOptions& options) {
  StagedModel adapter(options.directory, Part::adapter);
  write_safetensors(adapter.folder() / kAdapterWeightsFile,
                    tensors_to_write(module, pieces_of, Part::adapter));
  if (!options.run_toml.empty()) adapter.write(kRunFile, options.run_toml);
  adapter.write(kAdapterConfigFile, options.config_json);
  adapter.commit();
}

std::string adapter_config_json(const Module& module, const Adapters& adapters,
                                const std::string& base) {
  PeftConfig config{
      .rank = adapters.rank, .alpha = adapters.alpha, .dropout = adapters.dropout, .base = base};
  std::set<std::string> targets;
  for (const Value& value : module.values) {
    if (!value.param || value.category != Category::params) continue;
    config.in_out = config.in_out || value.param->in_out;
    if (!value.param->adapter) continue;
    for (const CheckpointPart& part : value.param->checkpoint)
      targets.emplace(target_of_lora_tensor(part.name));
  }
  config.targets.assign(targets.begin(), targets.end());
  return config.json();
}

}  // namespace snug
