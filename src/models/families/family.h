// A family of models: how its config.json is read and written, of which parts it is made, and its
// published sizes. Each family is a file of this folder and a line of families.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json_fields.h"
#include "models/families/hf_config.h"
#include "models/parts/model_parts.h"

namespace snug {

// A built-in model: the config.json that a published one has.
struct CatalogueRow {
  std::string_view name;
  std::string_view notes;  // which published model it is
  std::string config;
};

// Where the name of a checkpoint tensor ends with `usual`, a file may have `other` there.
struct OtherEnding {
  std::string_view usual, other;
};

struct Family {
  std::string_view model_type;    // in config.json
  std::string_view architecture;  // the class of transformers that opens it
  // Honours or refuses by name every field that changes the computation; defaults are those of the
  // configuration class in transformers.
  void (*read)(const JsonFields& f, HfConfig& c);
  // Over the fields of the file that the model was read from.
  void (*write)(const HfConfig& c, OrderedJson& json);
  // Its parts, and the names of its tensors in a checkpoint.
  ModelParts (*parts)(const HfConfig& c);
  std::vector<CatalogueRow> (*published)();
  // A file saved from the bare model, without its head, lacks this beginning of tensor names.
  std::string_view base_prefix;
  std::span<const OtherEnding> other_endings = {};
};

// In the order of the catalogue.
std::span<const Family* const> families();
const Family* find_family(std::string_view model_type);  // or nullptr

}  // namespace snug
