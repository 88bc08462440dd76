#include "checkpoint/run_manifest.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/json_depth.h"
#include "formats/json_error.h"
#include "ir/tensor_cut.h"
#include "report/option_json.h"
#include "settings/parse.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1, kVersionOfShards = 2, kVersionOfBoxes = 3;
constexpr std::string_view kFormat = "snug checkpoint";
constexpr std::string_view kRankFile = "state-", kRankFileEnd = ".safetensors";
constexpr size_t kChecksumDigits = 16;

Json json_of(const Shape& shape) { return std::vector(shape.dims().begin(), shape.dims().end()); }

Json json_of(const SavedPiece& piece) {
  Json json{{"name", piece.name},
            {"dtype", name_of(piece.type.dtype)},
            {"shape", json_of(piece.type.shape)},
            {"xxh64", piece.checksum}};
  if (piece.file != kStateFile) json["file"] = piece.file;
  if (piece.shard_of.rank() > 0) {
    json["of"] = json_of(piece.shard_of);
    json["first"] = piece.first;
  }
  for (const Box& b : piece.boxes)
    json["boxes"].push_back({b.rows, b.width, b.first, b.stride, b.whole_first, b.whole_stride});
  return json;
}

Json json_of(std::span<const SavedPiece> pieces) {
  Json json = Json::array();
  for (const SavedPiece& piece : pieces) json.push_back(json_of(piece));
  return json;
}

const Json& member(const Json& object, const char* key) {
  if (const auto found = object.find(key); object.is_object() && found != object.end())
    return *found;
  throw bad_input("there is no \"{}\"", key);
}

std::string text_in(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) throw bad_input("\"{}\" is not a text", key);
  return value.get<std::string>();
}

int64_t count_of(const Json& value, const char* key) {
  if (!value.is_number_integer() || value.is_number_float() || value < 0 ||
      value > std::numeric_limits<int64_t>::max())
    throw bad_input("\"{}\" is not a count", key);
  return value.get<int64_t>();
}

int64_t count_in(const Json& object, const char* key) { return count_of(member(object, key), key); }

std::string checksum_in(const Json& object) {
  std::string text = text_in(object, "xxh64");
  const bool hex = text.size() == kChecksumDigits &&
                   text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex) throw bad_input("\"xxh64\" is not a checksum of {} digits", kChecksumDigits);
  return text;
}

Shape shape_in(const Json& json, const char* key, const std::string& piece, int64_t element) {
  const Json& shape = member(json, key);
  if (!shape.is_array() || shape.size() > Shape::kMaxRank)
    throw bad_input("piece {}: \"{}\" is not a list of dimensions", printable(piece), key);
  std::vector<int64_t> dims;
  int64_t bytes = element;
  for (const Json& dim : shape) {
    if (!dim.is_number_integer() || dim < 1 || dim > std::numeric_limits<int64_t>::max())
      throw bad_input("piece {}: a dimension is not a count", printable(piece));
    dims.push_back(dim.get<int64_t>());
    bytes = checked_mul(bytes, dims.back(), "a piece");
  }
  return Shape(std::span<const int64_t>(dims));
}

// In the manifest's folder only.
std::string file_in(const Json& json, const std::string& piece) {
  std::string file = text_in(json, "file");
  int64_t rank = 0;
  std::string_view digits = file;
  const bool framed = digits.starts_with(kRankFile) && digits.ends_with(kRankFileEnd);
  if (framed) {
    digits.remove_prefix(kRankFile.size());
    digits.remove_suffix(kRankFileEnd.size());
  }
  if (!framed || !read_number(digits, rank) || rank < 0 || file != state_file(rank, 2))
    throw bad_input("piece {}: '{}' is no file of a rank", printable(piece), printable(file));
  return file;
}

// Each inside the whole.
std::vector<Box> boxes_from(const Json& json, const SavedPiece& piece) {
  const auto wrong = [&] {
    return bad_input("piece {}: a box is not inside {}", printable(piece.name),
                     piece.shard_of.text());
  };
  if (!json.is_array()) throw wrong();
  std::vector<Box> boxes;
  for (const Json& box : json) {
    constexpr size_t kNumbers = 6;
    if (!box.is_array() || box.size() != kNumbers) throw wrong();
    int64_t n[kNumbers];
    for (size_t i = 0; i < kNumbers; ++i) n[i] = count_of(box[i], "boxes");
    const Box b{n[0], n[1], n[2], n[3], n[4], n[5]};
    const auto ends = [](int64_t first, int64_t rows, int64_t stride, int64_t width) {
      return checked_add(checked_add(first, checked_mul(rows - 1, stride, "a box"), "a box"), width,
                         "a box");
    };
    if (b.rows < 1 || b.width < 1 ||
        (b.rows > 1 && (b.stride < b.width || b.whole_stride < b.width)) ||
        ends(b.whole_first, b.rows, b.whole_stride, b.width) > piece.shard_of.elements() ||
        ends(b.first, b.rows, b.stride, b.width) < 1)
      throw wrong();
    boxes.push_back(b);
  }
  if (piece.type.shape.rank() != 1) throw wrong();
  checked_add(piece.first, piece.type.shape.elements(), "a piece");
  return boxes;
}

SavedPiece piece_from(const Json& json) {
  SavedPiece piece{.name = text_in(json, "name"), .checksum = checksum_in(json)};
  const std::string dtype = text_in(json, "dtype");
  const auto known = parse_dtype(dtype);
  if (!known)
    throw bad_input("piece {}: \"dtype\" is '{}'", printable(piece.name), printable(dtype));
  piece.type = {*known, shape_in(json, "shape", piece.name, size_of(*known))};
  if (json.contains("file")) piece.file = file_in(json, piece.name);
  if (!json.contains("of")) return piece;
  piece.shard_of = shape_in(json, "of", piece.name, size_of(*known));
  piece.first = count_in(json, "first");
  if (json.contains("boxes")) piece.boxes = boxes_from(member(json, "boxes"), piece);
  if (!piece.boxes.empty()) return piece;
  if (piece.shard_of.rank() == 0 || piece.type.shape.rank() != 1 ||
      piece.first > piece.shard_of.elements() - piece.type.shape.elements())
    throw bad_input("piece {} is no shard of {}", printable(piece.name), piece.shard_of.text());
  return piece;
}

// Every element is in some box; keys and values of fewer heads than ranks are in several.
void require_boxes(const std::vector<const SavedPiece*>& pieces) {
  const SavedPiece& front = *pieces.front();
  std::set<std::tuple<int64_t, int64_t, int64_t>> seen;  // runs of the whole
  int64_t elements = 0;
  for (const SavedPiece* piece : pieces) {
    if (piece->boxes.empty() || piece->type.dtype != front.type.dtype ||
        piece->whole() != front.whole())
      throw bad_input("piece {} is there twice", printable(front.name));
    const int64_t end = piece->first + piece->type.shape.elements();
    for (const Box& box : piece->boxes) {
      int64_t here = 0, first = box.whole_first;
      const TensorCut one{.whole = piece->shard_of, .boxes = {box}};
      for_runs(one, piece->first, end, [&](const WholeRun& run) {
        if (here == 0) first = run.whole_first;
        here += run.elements;
      });
      if (here > 0 && seen.emplace(first, box.whole_stride, here).second) elements += here;
    }
  }
  if (elements != front.whole().elements())
    throw bad_input("of {}, {} of {} elements are there", printable(front.name),
                    format_exact(elements), format_exact(front.whole().elements()));
}

// One piece after another, to the end of the value.
void require_whole(std::vector<const SavedPiece*> pieces) {
  if (!pieces.front()->boxes.empty()) return require_boxes(pieces);
  std::ranges::sort(pieces, {}, &SavedPiece::first);
  const SavedPiece& front = *pieces.front();
  int64_t next = 0;
  for (const SavedPiece* piece : pieces) {
    const bool alike = piece->type.dtype == front.type.dtype && piece->whole() == front.whole();
    if (!alike || piece->first < next)
      throw bad_input("piece {} is there twice", printable(front.name));
    if (piece->first > next) break;
    next += piece->type.shape.elements();
  }
  if (next != front.whole().elements())
    throw bad_input("of {}, {} of {} elements are there", printable(front.name), format_exact(next),
                    format_exact(front.whole().elements()));
}

std::vector<SavedPiece> pieces_from(const Json& json) {
  if (!json.is_array()) throw bad_input("\"pieces\" is not a list");
  std::vector<SavedPiece> pieces;
  for (const Json& piece : json) pieces.push_back(piece_from(piece));
  return pieces;
}

RunManifest manifest_from(const Json& json) {
  if (text_in(json, "format") != kFormat) throw bad_input("\"format\" is not \"{}\"", kFormat);
  if (const int64_t version = count_in(json, "version");
      version < kVersion || version > kVersionOfBoxes) {
    throw bad_input("it is of version {}, and this Snug reads versions {} to {}", version, kVersion,
                    kVersionOfBoxes)
        .hint("resume with the Snug that wrote it");
  }
  RunManifest m{.run = text_in(json, "run"),
                .step = count_in(json, "step"),
                .position = count_in(json, "position"),
                .skipped = count_in(json, "skipped"),
                .device = text_in(json, "device"),
                .asked = options_from_json(member(json, "asked")),
                .settled = options_from_json(member(json, "settled"))};
  const Json& bad = member(json, "bad");
  if (!bad.is_array()) throw bad_input("\"bad\" is not a list");
  for (const Json& position : bad) m.bad.push_back(count_of(position, "bad"));
  const Json& data = member(json, "data");
  m.data = {.tokens = count_in(data, "tokens"), .checksum = checksum_in(data)};
  m.pieces = pieces_from(member(json, "pieces"));
  std::map<std::string_view, std::vector<const SavedPiece*>> values;
  for (const SavedPiece& piece : m.pieces) values[piece.name].push_back(&piece);
  for (const auto& [name, pieces] : values) require_whole(pieces);
  return m;
}

// The checked part, if it has the checksum that is written with it.
const Json& checked(const Json& json) {
  const Json& manifest = member(json, "manifest");
  if (checksum_in(json) != checksum_text(manifest.dump()))
    throw bad_input("its bytes are not those that were written");
  return manifest;
}

}  // namespace

static bool fits(ValueKind kind, const Json& value) {
  switch (kind) {
    case ValueKind::flag:
      return value.is_boolean();
    case ValueKind::whole:
      return value.is_number_integer();
    case ValueKind::number:
      return value.is_number();
    case ValueKind::text:
      break;
  }
  return value.is_string();
}

Json options_json(const Options& options) {
  Json json;
  json["model"] = options.model;
  for (const Option& option : all_options())
    json[std::string(option.key)] = option_json(option, options);
  return json;
}

Options options_from_json(const Json& json) {
  Options options;
  if (!json.is_object()) throw bad_input("its options are no object");
  options.model = text_in(json, "model");
  std::set<std::string> known{"model"};
  for (const Option& option : all_options()) {
    const std::string key(option.key);
    known.insert(key);
    const auto found = json.find(key);
    if (found == json.end()) continue;  // an option that came later has its default
    if (!fits(option.kind, *found))
      throw bad_input("option \"{}\" has a value of another type", key);
    try {
      parse_option(option, options, found->is_string() ? found->get<std::string>() : found->dump());
    } catch (const Error& error) {
      throw bad_input("option \"{}\": {}", key, error.what());
    }
  }
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key)) throw bad_input("there is no option \"{}\"", printable(key));
  }
  return options;
}

std::string state_file(int64_t rank, int64_t ranks) {
  return ranks == 1 ? kStateFile : fmt::format("{}{:05}{}", kRankFile, rank, kRankFileEnd);
}

std::string pieces_text(std::span<const SavedPiece> pieces) { return json_of(pieces).dump(); }

std::vector<SavedPiece> parse_pieces(std::string_view text) {
  try {
    return pieces_from(Json::parse(text));
  } catch (const Json::exception& e) {
    throw bad_input("no pieces of a checkpoint: {}", plain_words(e));
  }
}

std::string manifest_text(const RunManifest& m) {
  const bool in_shards = std::ranges::any_of(
      m.pieces, [](const SavedPiece& piece) { return piece.file != kStateFile; });
  const bool in_boxes =
      std::ranges::any_of(m.pieces, [](const SavedPiece& piece) { return !piece.boxes.empty(); });
  Json json{{"format", kFormat},
            {"version", in_boxes    ? kVersionOfBoxes
                        : in_shards ? kVersionOfShards
                                    : kVersion},
            {"run", m.run},
            {"step", m.step},
            {"position", m.position},
            {"skipped", m.skipped},
            {"bad", m.bad},
            {"device", m.device},
            {"data", {{"tokens", m.data.tokens}, {"xxh64", m.data.checksum}}},
            {"asked", options_json(m.asked)},
            {"settled", options_json(m.settled)},
            {"pieces", json_of(m.pieces)}};
  const std::string sum = checksum_text(json.dump());
  return Json{{"manifest", std::move(json)}, {"xxh64", sum}}.dump(1) + "\n";
}

RunManifest parse_manifest(std::string_view text, std::string_view where) {
  require_shallow_json(text, where);
  try {
    return manifest_from(checked(Json::parse(text)));
  } catch (const Error& e) {
    throw bad_input("{} is no manifest of a checkpoint: {}", where, e.what()).hint(e.hint());
  } catch (const Json::exception& e) {
    throw bad_input("{} is no manifest of a checkpoint: {}", where, plain_words(e));
  }
}

}  // namespace snug
