// The output of a run: the model that it trained, or its adapter.
//
//   save_trained(run, module, pieces_of(pieces), to_toml(run, recompute), "runs/mine");
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "recipe/resolve.h"

namespace snug {

// The model, or its adapter where that is what the run trains, as a directory.
void save_trained(const Resolved& run, const Module& module, const PiecesOf& pieces_of,
                  std::string run_toml, const std::filesystem::path& directory);

// The name of an adapter's base model.
std::string base_name(const Resolved& run);

// How this model's tensors may be spelled in a checkpoint.
Spellings spellings_of(const Resolved& run, Part part = Part::model);

}  // namespace snug
