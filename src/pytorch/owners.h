// Whose the bytes of an allocation are: by the frames it was made in, and by how long it lives
// where frames do not say. Exact where frames are recorded from before the model is made; a good
// guess otherwise.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "pytorch/steps.h"

namespace snug::pytorch {

enum class Owner : uint8_t {
  parameters,  // and buffers of the model
  gradients,
  optimizer,    // its state
  casts,        // 16-bit copies of weights that autocast keeps
  activations,  // kept from forward for backward, and outputs
  temporaries,  // of backward and of the update
  workspace,    // of libraries
  script,       // tensors that the script's own lines make: batches, what it keeps
  unknown,
};
inline constexpr size_t kOwners = 9;

std::string_view name_of(Owner owner);   // for programs: "parameters"
std::string_view words_of(Owner owner);  // for people

// One for each allocation of the replay.
std::vector<Owner> owners_of(const DeviceSnapshot& device, const Replay& replay, const Steps& steps,
                             const std::vector<StackFacts>& stacks);

}  // namespace snug::pytorch
