#include "checkpoint/run_state.h"

#include <algorithm>
#include <future>
#include <optional>
#include <system_error>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/run_directory.h"
#include "ir/tensor_cut.h"
#include "passes/gradient_squares.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

Error damaged(const fs::path& checkpoint, std::string_view what) {
  return bad_input("checkpoint {}: {}", checkpoint.string(), what)
      .hint("an older checkpoint may be whole: `snug checkpoint DIR --verify` says which are");
}

// The file has the pieces that the manifest says, and no others.
void require_same_pieces(const fs::path& checkpoint, const std::string& name,
                         const SafetensorsFile& file, std::span<const SavedPiece> all) {
  size_t pieces = 0;
  for (const SavedPiece& piece : all) {
    if (piece.file != name) continue;
    ++pieces;
    const TensorEntry* entry = file.find(piece.name);
    if (entry == nullptr)
      throw damaged(checkpoint, fmt::format("{} has no piece {}", name, piece.name));
    if (Type{*entry->dtype, entry->shape} != piece.type) {
      throw damaged(checkpoint, fmt::format("piece {} is {} in {} and {} in {}", piece.name,
                                            (Type{*entry->dtype, entry->shape}).text(), name,
                                            piece.type.text(), kManifestFile));
    }
  }
  if (file.tensors().size() != pieces)
    throw damaged(checkpoint, fmt::format("{} has {} pieces, and {} names {}", name,
                                          file.tensors().size(), kManifestFile, pieces));
}

// Requires the checkpoint to have the values that the resumed run needs.
void require_values_of(const Module& module, const RunStateReader& reader, HasMore more) {
  const std::string checkpoint = reader.checkpoint().string();
  constexpr const char* kHint = "it is of another model, optimizer or precision";
  std::set<std::string_view> needed;
  for (const ValueId id : run_state(module)) {
    const Value& value = module[id];
    needed.insert(value.name);
    const auto extents = reader.of(value.name);
    if (extents.empty()) {
      throw bad_input("checkpoint {} has no {}, which this run keeps from step to step", checkpoint,
                      value.name)
          .hint(kHint);
    }
    const Type there{extents.front().piece.type.dtype, extents.front().piece.whole()};
    const Type here{value.type.dtype, logical_shape(module, value)};
    if (there != here) {
      throw bad_input("checkpoint {}: {} is {} there and {} in this run", checkpoint, value.name,
                      there.text(), here.text())
          .hint(kHint);
    }
  }
  for (const std::string_view name : reader.values()) {
    if (more == HasMore::yes || needed.contains(name)) continue;
    throw bad_input("checkpoint {} has {}, which this run does not keep from step to step",
                    checkpoint, name)
        .hint(kHint);
  }
}

void require_checksum(const fs::path& checkpoint, const SavedPiece& piece, const Checksum& sum) {
  if (sum.text() == piece.checksum) return;
  throw damaged(checkpoint, fmt::format("piece {} in {} is damaged: its checksum is {}, not {}",
                                        piece.name, piece.file, sum.text(), piece.checksum));
}

SafetensorsFile open_state(const fs::path& checkpoint, const std::string& name) {
  try {
    return SafetensorsFile(checkpoint / name);
  } catch (const Error& e) {
    throw damaged(checkpoint, e.what());
  }
}

// Bytes of a value, one after another; the pieces that are among them whole are checked.
class ReadInOrder {
 public:
  ReadInOrder(const RunStateReader& reader, std::string_view value, int64_t from)
      : reader_(reader), extents_(reader.of(value)), at_(from) {}

  void read(std::span<std::byte> next) {
    while (!next.empty()) {
      const RunStateReader::Extent& from = extents_.front();
      if (at_ >= from.end()) {
        extents_ = extents_.subspan(1);
        continue;
      }
      if (at_ == from.begin()) sum_.emplace();
      const auto part = next.first(
          static_cast<size_t>(std::min(static_cast<int64_t>(next.size()), from.end() - at_)));
      from.entry.read(at_ - from.begin(), part);
      if (sum_) sum_->add(part);
      at_ += static_cast<int64_t>(part.size());
      if (sum_ && at_ == from.end()) require_checksum(reader_.checkpoint(), from.piece, *sum_);
      next = next.subspan(part.size());
    }
  }

 private:
  const RunStateReader& reader_;
  std::span<const RunStateReader::Extent> extents_;
  int64_t at_;                   // of the value
  std::optional<Checksum> sum_;  // of the piece, where it is read from its beginning
};

bool in_boxes(std::span<const RunStateReader::Extent> extents) {
  return !extents.empty() && !extents.front().piece.boxes.empty();
}

// Some of a value's bytes from byte `at` of the whole on, from any rank. Pieces are not checked.
void read_whole(std::span<const RunStateReader::Extent> extents, int64_t at,
                std::span<std::byte> out) {
  for (const RunStateReader::Extent& extent : extents) {
    const SavedPiece& piece = extent.piece;
    const int64_t size = size_of(piece.type.dtype), from = at / size;
    const int64_t to = from + std::ssize(out) / size, n = piece.type.shape.elements();
    const auto read = [&](const WholeRun& run) {
      extent.entry.read((run.first - piece.first) * size,
                        out.subspan(static_cast<size_t>((run.whole_first - from) * size),
                                    static_cast<size_t>(run.elements * size)));
    };
    if (piece.boxes.empty()) {
      const int64_t first = std::max(from, piece.first), end = std::min(to, piece.first + n);
      if (first < end) read({first, first, end - first});
    } else {
      for_runs_in(piece.cut(), piece.first, piece.first + n, from, to, read);
    }
  }
}

// Does some rank have all of it?
bool is_read_whole(const RunStateReader::Extent& extent, const Value& value) {
  const int64_t block = value.type.shape.elements();
  return value.shard_of.rank() == 0 ||
         extent.piece.first / block ==
             (extent.piece.first + extent.piece.type.shape.elements() - 1) / block;
}

// Both take a core: a large piece is summed by another.
void write_and_sum(std::span<const std::byte> piece, const ByteSink& sink, Checksum& sum) {
  constexpr size_t kLarge = size_t{1} << 20;
  std::future<void> summed;
  if (piece.size() >= kLarge) {
    try {
      summed = std::async(std::launch::async, [&] { sum.add(piece); });
    } catch (const std::system_error&) {  // no thread: here, then
    }
  }
  if (!summed.valid()) sum.add(piece);
  sink(piece);
  if (summed.valid()) summed.get();
}

}  // namespace

bool is_frozen(const Value& value) {
  return value.category == Category::params && value.param && !value.param->trainable;
}

std::set<ValueId> frozen_values(const Module& module) {
  std::set<ValueId> frozen;
  for (size_t i = 0; i < module.values.size(); ++i) {
    if (module.values[i].owns_bytes() && is_frozen(module.values[i]))
      frozen.insert({static_cast<int32_t>(i)});
  }
  return frozen;
}

std::vector<ValueId> run_state(const Module& module) {
  std::set<ValueId> made;
  if (const int32_t load = module.program_index(ProgramRole::load); load >= 0) {
    for (const Op& op : module.programs[static_cast<size_t>(load)].ops)
      for (const ValueId id : op.outputs) made.insert(module.root(id));
  }
  std::vector<ValueId> state;
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    const ValueId id{static_cast<int32_t>(i)};
    if (value.scope == Scope::persistent && value.owns_bytes() && !made.contains(id) &&
        !is_frozen(value))
      state.push_back(id);
  }
  return state;
}

int64_t run_state_bytes(const Module& module) {
  int64_t bytes = 0;
  for (const ValueId id : run_state(module)) bytes += without_padding(module, id).bytes;
  return bytes;
}

int64_t run_state_of_ranks_bytes(const Module& module) {
  int64_t bytes = 0;
  for (const ValueId id : run_state(module))
    bytes += Type{module[id].type.dtype, logical_shape(module, module[id])}.bytes();
  return bytes;
}

// Counts and scales are every stage's; a table that two stages share is a parameter of each.
std::vector<ValueId> saved_by_stage(const Module& module, std::span<const ValueId> state,
                                    const Mesh& mesh) {
  std::vector<ValueId> mine;
  for (const ValueId id : state) {
    const Value& value = module[id];
    const ValueId gradient = module.gradient_of(id);
    const bool is_on_first =
        value.category == Category::buffers ||
        (gradient.valid() && is_counted_on_earlier_stage(module[gradient], mesh));
    if (mesh.is_first_stage() || !is_on_first) mine.push_back(id);
  }
  return mine;
}

// Shards are written by the ranks of the first copy, and are equally large; what all ranks have is
// dealt out, by bytes.
std::vector<ValueId> saved_by_rank(const Module& module, std::span<const ValueId> state,
                                   const Sharding& sharding, const Mesh& mesh) {
  std::vector<int64_t> dealt(static_cast<size_t>(sharding.ranks));
  std::vector<ValueId> mine;
  for (const ValueId id : state) {
    const TensorCut& cut = tensor_cut_of(module, module[id]);
    if (cut.on() ? cut.boxes.empty() : mesh.part > 0) continue;  // the first part has it
    if (module[id].shard_of.rank() > 0) {
      if (sharding.copy() == 0 && module[id].elements_in_whole() > 0) mine.push_back(id);
      continue;
    }
    const auto least = std::ranges::min_element(dealt);
    *least += module[id].type.bytes();
    if (least - dealt.begin() == sharding.rank) mine.push_back(id);
  }
  return mine;
}

std::set<ValueId> loaded_run_state(const Module& module) {
  std::set<ValueId> loaded;
  for (const ValueId id : run_state(module))
    if (without_padding(module, id).bytes == module[id].storage_bytes()) loaded.insert(id);
  return loaded;
}

std::vector<SavedPiece> save_run_state(const Module& module, std::span<const ValueId> state,
                                       const PiecesOf& pieces_of, const fs::path& file) {
  std::vector<SavedPiece> pieces;
  for (const ValueId id : state) {
    const Value& value = module[id];
    pieces.push_back({.name = value.name,
                      .type = value.type,
                      .file = file.filename().string(),
                      .shard_of = value.shard_of,
                      .first = value.shard_first});
    if (const TensorCut& cut = tensor_cut_of(module, value); cut.on()) {
      pieces.back().shard_of = cut.whole;
      pieces.back().boxes = cut.boxes;
    }
    if (pieces.back().shard_of.rank() > 0)
      pieces.back().type.shape = Shape{value.elements_in_whole()};
  }
  std::vector<TensorToWrite> tensors;
  for (size_t i = 0; i < state.size(); ++i) {
    tensors.push_back(
        {pieces[i].name, pieces[i].type, [&, i](const ByteSink& sink) {
           Checksum sum;
           pieces_of(without_padding(module, state[i]),
                     [&](std::span<const std::byte> next) { write_and_sum(next, sink, sum); });
           pieces[i].checksum = sum.text();
         }});
  }
  write_safetensors(file, tensors);
  return pieces;
}

namespace {

// Where this run or the saved one cuts a value by boxes: run by run.
void load_boxes(const Module& module, ValueId id, const MakePieces& into,
                std::span<const RunStateReader::Extent> extents) {
  const Value& value = module[id];
  const int64_t size = size_of(value.type.dtype);
  int64_t at = value.shard_first;
  into(without_padding(module, id), [&](std::span<std::byte> next) {
    std::ranges::fill(next, std::byte{0});  // after the last word
    const int64_t end = at + std::ssize(next) / size;
    for_runs(tensor_cut_of(module, value), at, end, [&](const WholeRun& run) {
      read_whole(extents, run.whole_first * size,
                 next.subspan(static_cast<size_t>((run.first - at) * size),
                              static_cast<size_t>(run.elements * size)));
    });
    at = end;
  });
}

}  // namespace

void load_run_state(const Module& module, const MakePieces& into, const RunStateReader& reader,
                    const Sharding& sharding, HasMore more) {
  require_values_of(module, reader, more);
  int64_t cut = 0;  // pieces that ranks share
  for (const ValueId id : run_state(module)) {
    const Value& value = module[id];
    if (const auto extents = reader.of(value.name);
        in_boxes(extents) || tensor_cut_of(module, value).on()) {
      load_boxes(module, id, into, extents);
      for (const RunStateReader::Extent& extent : extents)
        if (cut++ % sharding.ranks == sharding.rank) reader.verify(extent);
      continue;
    }
    ReadInOrder box(reader, value.name, value.shard_first * size_of(value.type.dtype));
    if (const ValuePart part = without_padding(module, id); part.bytes > 0)
      into(part, [&](std::span<std::byte> next) { box.read(next); });
    for (const RunStateReader::Extent& extent : reader.of(value.name))
      if (!is_read_whole(extent, value) && cut++ % sharding.ranks == sharding.rank)
        reader.verify(extent);
  }
}

RunStateReader::RunStateReader(fs::path checkpoint, const RunManifest& manifest)
    : checkpoint_(std::move(checkpoint)) {
  std::map<std::string, SafetensorsFile> files;
  for (const SavedPiece& piece : manifest.pieces)
    if (!files.contains(piece.file)) files.emplace(piece.file, open_state(checkpoint_, piece.file));
  for (const auto& [name, file] : files)
    require_same_pieces(checkpoint_, name, file, manifest.pieces);
  for (const SavedPiece& piece : manifest.pieces)
    values_[piece.name].push_back({piece, *files.at(piece.file).find(piece.name)});
  for (auto& [name, extents] : values_) std::ranges::sort(extents, {}, &Extent::begin);
}

std::span<const RunStateReader::Extent> RunStateReader::of(std::string_view value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? std::span<const Extent>() : found->second;
}

std::vector<std::string_view> RunStateReader::values() const {
  std::vector<std::string_view> names;
  for (const auto& [name, extents] : values_) names.push_back(name);
  return names;
}

PiecesOf RunStateReader::pieces_of(const Module& module) const {
  return [this, &module](const ValuePart& part, const LookAtPiece& visit) {
    const std::string& name = module[part.value].name;
    const auto extents = of(name);
    const bool boxes = in_boxes(extents);
    if (extents.empty() || (!boxes && part.offset + part.bytes > extents.back().end())) {
      throw bad_input("checkpoint {} has no {}", checkpoint_.string(), name)
          .hint("it is of another model");
    }
    ReadInOrder bytes(*this, name, part.offset);
    std::vector<std::byte> block(
        static_cast<size_t>(std::min(part.bytes, ValuePieces::kPieceBytes)));
    for (int64_t at = 0; at < part.bytes; at += ValuePieces::kPieceBytes) {
      const auto next = std::span(block).first(
          static_cast<size_t>(std::min(ValuePieces::kPieceBytes, part.bytes - at)));
      if (boxes) {
        read_whole(extents, part.offset + at, next);
      } else {
        bytes.read(next);
      }
      visit(next);
    }
  };
}

void RunStateReader::verify(const Extent& extent) const {
  Checksum sum;
  std::vector<std::byte> block(static_cast<size_t>(std::min(kReadBlockBytes, extent.entry.bytes)));
  for (int64_t at = 0; at < extent.entry.bytes; at += kReadBlockBytes) {
    const auto next = std::span(block).first(
        static_cast<size_t>(std::min<int64_t>(kReadBlockBytes, extent.entry.bytes - at)));
    extent.entry.read(at, next);
    sum.add(next);
  }
  require_checksum(checkpoint_, extent.piece, sum);
}

void RunStateReader::verify() const {
  for (const auto& [name, extents] : values_)
    for (const Extent& extent : extents) verify(extent);
}

}  // namespace snug
