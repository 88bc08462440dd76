// What DeepSpeed's configuration file means here: each of its keys as options of Snug, or why it is
// none.
//
//   const DeepSpeedConfig file = DeepSpeedConfig::read("ds.json");
//   const DeepSpeedMapped mapped = map_deepspeed(file, {.ranks = 8, .width = 4096, .layers = 32});
//   flags_of(mapped.change);   // "--batch 4 --accum 2 --precision bf16 --zero 3"
#pragma once

#include <string>
#include <vector>

#include "formats/deepspeed_config.h"
#include "settings/change.h"

namespace snug {

// What a file means depends on these.
struct DeepSpeedPlace {
  int64_t ranks = 1;         // of the job
  int64_t tp = 1, pp = 1;    // that the command line says
  int64_t width = 0;         // of the model: what "auto" is made from
  int64_t layers = 0;        // of the model
  bool batch_given = false;  // by --batch: a file then needs none
};

// One key of the file.
struct DeepSpeedLine {
  std::string path;      // as the table has it
  std::string written;   // as the file has it
  std::string value;     // effective, in words
  Change change;         // the options that it sets
  std::string here;      // what it does, or why it does nothing
  bool known = true;     // to DeepSpeed
  bool refused = false;  // it cannot be done here, and changes what is learned
};

struct DeepSpeedMapped {
  std::vector<DeepSpeedLine> lines;  // in the order of the file
  Change change;  // of all of them, and what DeepSpeed's defaults mean where the file is silent
};

// Throws bad_input for what DeepSpeed's own code refuses: a batch that contradicts itself, fp16 and
// bf16 together.
DeepSpeedMapped map_deepspeed(const DeepSpeedConfig& file, const DeepSpeedPlace& place);

}  // namespace snug
