#include "train/run_state.h"

#include <algorithm>
#include <future>
#include <map>
#include <system_error>

#include "base/checksum.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "train/run_directory.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

Error damaged(const fs::path& checkpoint, std::string_view what) {
  return bad_input("checkpoint {}: {}", checkpoint.string(), what)
      .hint("an older checkpoint may be whole: `snug checkpoint DIR --verify` says which are");
}

// The file has the pieces of the manifest, and no others.
void require_same_pieces(const fs::path& checkpoint, const SafetensorsFile& file,
                         const RunManifest& manifest) {
  for (const SavedPiece& piece : manifest.pieces) {
    const TensorEntry* entry = file.find(piece.name);
    if (entry == nullptr)
      throw damaged(checkpoint, fmt::format("{} has no piece {}", kStateFile, piece.name));
    if (Type{*entry->dtype, entry->shape} != piece.type) {
      throw damaged(checkpoint, fmt::format("piece {} is {} in {} and {} in {}", piece.name,
                                            (Type{*entry->dtype, entry->shape}).text(), kStateFile,
                                            piece.type.text(), kManifestFile));
    }
  }
  if (file.tensors().size() != manifest.pieces.size())
    throw damaged(checkpoint,
                  fmt::format("{} has {} pieces, and {} names {}", kStateFile,
                              file.tensors().size(), kManifestFile, manifest.pieces.size()));
}

// What the run that goes on needs is what the checkpoint has.
void require_pieces_of(const Module& module, const fs::path& checkpoint,
                       const RunManifest& manifest) {
  std::map<std::string_view, const SavedPiece*> saved;
  for (const SavedPiece& piece : manifest.pieces) saved[piece.name] = &piece;
  for (const ValueId id : run_state(module)) {
    const Value& value = module[id];
    const auto found = saved.find(value.name);
    if (found == saved.end()) {
      throw bad_input("checkpoint {} has no {}, which this run keeps from step to step",
                      checkpoint.string(), value.name)
          .hint("it is of another model, optimizer or precision");
    }
    if (found->second->type != value.type) {
      throw bad_input("checkpoint {}: {} is {} there and {} in this run", checkpoint.string(),
                      value.name, found->second->type.text(), value.type.text())
          .hint("it is of another model, optimizer or precision");
    }
    saved.erase(found);
  }
  if (saved.empty()) return;
  throw bad_input("checkpoint {} has {}, which this run does not keep from step to step",
                  checkpoint.string(), saved.begin()->first)
      .hint("it is of another model, optimizer or precision");
}

void require_checksum(const fs::path& checkpoint, const SavedPiece& piece, const Checksum& sum) {
  if (sum.text() == piece.checksum) return;
  throw damaged(checkpoint, fmt::format("piece {} in {} is damaged: its checksum is {}, not {}",
                                        piece.name, kStateFile, sum.text(), piece.checksum));
}

SafetensorsFile open_state(const fs::path& checkpoint) {
  try {
    return SafetensorsFile(checkpoint / kStateFile);
  } catch (const Error& e) {
    throw damaged(checkpoint, e.what());
  }
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
  for (const ValueId id : run_state(module)) bytes += module[id].type.bytes();
  return bytes;
}

std::set<ValueId> loaded_run_state(const Module& module) {
  std::set<ValueId> loaded;
  for (const ValueId id : run_state(module))
    if (module[id].type.bytes() == module[id].storage_bytes()) loaded.insert(id);
  return loaded;
}

std::vector<SavedPiece> save_run_state(const Module& module, std::span<const ValueId> state,
                                       const PiecesOf& pieces_of, const fs::path& file) {
  std::vector<SavedPiece> pieces(state.size());
  std::vector<TensorToWrite> tensors;
  for (size_t i = 0; i < state.size(); ++i) {
    const Value& value = module[state[i]];
    pieces[i] = {.name = value.name, .type = value.type};
    tensors.push_back({value.name, value.type, [&, i](const ByteSink& sink) {
                         Checksum sum;
                         pieces_of(whole(module, state[i]), [&](std::span<const std::byte> next) {
                           write_and_sum(next, sink, sum);
                         });
                         pieces[i].checksum = sum.text();
                       }});
  }
  write_safetensors(file, tensors);
  return pieces;
}

void load_run_state(const Module& module, const MakePieces& into, const fs::path& checkpoint,
                    const RunManifest& manifest) {
  const SafetensorsFile file = open_state(checkpoint);
  require_pieces_of(module, checkpoint, manifest);
  require_same_pieces(checkpoint, file, manifest);
  std::map<std::string_view, const SavedPiece*> saved;
  for (const SavedPiece& piece : manifest.pieces) saved[piece.name] = &piece;
  for (const ValueId id : run_state(module)) {
    const TensorEntry& entry = *file.find(module[id].name);
    Checksum sum;
    int64_t at = 0;
    into(whole(module, id), [&](std::span<std::byte> next) {
      entry.read(at, next);
      sum.add(next);
      at += static_cast<int64_t>(next.size());
    });
    require_checksum(checkpoint, *saved.at(module[id].name), sum);
  }
}

void check_run_state(const fs::path& checkpoint, const RunManifest& manifest) {
  require_same_pieces(checkpoint, open_state(checkpoint), manifest);
}

RunStateReader::RunStateReader(const fs::path& checkpoint, const RunManifest& manifest)
    : checkpoint_(checkpoint), file_(open_state(checkpoint)) {
  require_same_pieces(checkpoint, file_, manifest);
}

PiecesOf RunStateReader::pieces_of(const Module& module) const {
  return [this, &module](const ValuePart& part, const LookAtPiece& visit) {
    const TensorEntry* entry = file_.find(module[part.value].name);
    if (entry == nullptr || part.offset + part.bytes > entry->bytes) {
      throw bad_input("checkpoint {} has no {}", checkpoint_.string(), module[part.value].name)
          .hint("it is of another model");
    }
    std::vector<std::byte> block(
        static_cast<size_t>(std::min(part.bytes, ValuePieces::kPieceBytes)));
    for (int64_t at = 0; at < part.bytes; at += ValuePieces::kPieceBytes) {
      const auto next = std::span(block).first(
          static_cast<size_t>(std::min(ValuePieces::kPieceBytes, part.bytes - at)));
      entry->read(part.offset + at, next);
      visit(next);
    }
  };
}

void verify_run_state(const fs::path& checkpoint, const RunManifest& manifest) {
  const SafetensorsFile file = open_state(checkpoint);
  require_same_pieces(checkpoint, file, manifest);
  std::vector<std::byte> block(static_cast<size_t>(kReadBlockBytes));
  for (const SavedPiece& piece : manifest.pieces) {
    const TensorEntry& entry = *file.find(piece.name);
    Checksum sum;
    for (int64_t at = 0; at < entry.bytes; at += kReadBlockBytes) {
      const auto next =
          std::span(block).first(static_cast<size_t>(std::min(kReadBlockBytes, entry.bytes - at)));
      entry.read(at, next);
      sum.add(next);
    }
    require_checksum(checkpoint, piece, sum);
  }
}

}  // namespace snug
