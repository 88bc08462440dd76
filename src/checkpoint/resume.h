// `train --resume`: the options of a resumed run. Everything comes from the checkpoint but options
// given anew: how it is run may change; what it computes may not, unless --resume-changed is given.
//
//   const Resumed run = resume(options);    // options.resume: a run's directory, or a checkpoint
//   train with run.options, from run.checkpoint, at run.manifest.step
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/run_manifest.h"

namespace snug {

struct Resumed {
  std::filesystem::path checkpoint;
  RunManifest manifest;
  Options options;
};

// Throws bad_input where there is no whole checkpoint, and a usage error that names the options
// which would change results.
Resumed resume(const Options& asked);

// Names of the options that were given: as they came, or those that are not the defaults.
std::vector<std::string> given_in(const Options& asked);

// Of a run that is under way: as it is there.
Resumed last_checkpoint(const std::filesystem::path& directory);

// The same run on so many ranks: as many sequences a step, in micro-batches as large.
Options on_ranks(Options options, int64_t ranks);

// The model of a run: by the name it was given, or by the copy of its configuration where that is
// gone.
std::string model_of_run(const RunManifest& manifest, const std::filesystem::path& checkpoint);

// Lines about a run resumed with these options: where it is, and what is not as it was. `read`: how
// long that took.
std::vector<std::string> lines_of(const Resumed& run, const Options& now, std::string_view device,
                                  const std::string& read);

// Throws bad_input unless the data is what it was, or --new-data was given.
void require_same_data(const Resumed& run, const DataFingerprint& now);

}  // namespace snug
