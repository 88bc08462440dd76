// What Snug knows of a memory technique beyond its passes: the options that turn it on, what it does to the
// numbers, what it touches, when it helps and what it excludes. A row is in the technique's folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost/device_catalogue.h"
#include "settings/allow.h"
#include "settings/change.h"
#include "settings/settings.h"

namespace snug {

// What a change does to the numbers of a run.
enum class Effect : uint8_t { exact, rounding, learning };

// What a technique makes smaller, or faster.
enum class Touches : uint8_t { activations, state, arithmetic };

// Does the ladder have a rung of its own for it, and is it on the last rung, with all that add up?
enum class OnLadder : uint8_t { no, alone, together };

struct Technique {
  std::string_view name;       // what the ladder and the documents call it
  std::string_view dimension;  // what it is an alternative of: "compress"
  Change change;
  Effect effect = Effect::exact;
  Touches touches = Touches::activations;
  std::string_view numbers = {};  // what it does to them, for the documents
  OnLadder on_ladder = OnLadder::no;
  bool smallest = false;      // of its dimension, the one for a run that must be as small as can be
  bool other_method = false;  // learns by other rules, not by the same ones in fewer bits
  bool last_resort = false;   // advised only where nothing milder fits
  double lr_factor = 1;       // its learning rate, as a part of AdamW's

  // Is it an alternative that the search tries on this device where its dimension is open?
  bool (*searched)(const Settings& run, const DeviceSpec& device) = nullptr;
  // Would it save bytes or time in this run, where it is not in use and nothing excludes it?
  bool (*helps)(const Settings& run, bool has_budget) = nullptr;
  // What it does to the numbers of this run, where that depends on what else is in use.
  Effect (*effect_with)(const Settings& run) = nullptr;
  // Throws a usage error where it is in use together with what it excludes.
  void (*refuse)(const Options& options, const Recipe& recipe) = nullptr;
};

// One thing to choose, settled by these options. Open to the search where they are at their
// defaults: always, or where --allow names it because its alternatives change what is learned.
struct DimensionRow {
  std::string_view name;
  std::vector<const Option*> options;
  std::optional<AllowItem> needs_allow = {};
  bool of_sequences = false;  // means nothing to a model without sequences
  bool moves = false;         // values to other memory, which makes nothing faster
  bool with_moves = false;    // its alternatives are also combined with those that move values
};

}  // namespace snug
