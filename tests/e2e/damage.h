// A saved model with a number in it that should not be there.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>

#include "base/text.h"
#include "formats/safetensors.h"
#include "formats/testing.h"

namespace snug {

// Replaces the first number of an fp32 tensor of a model.safetensors.
inline void damage(const std::filesystem::path& weights, const std::string& tensor, float number) {
  std::string bytes = read_file(weights);
  {
    const SafetensorsFile file(weights);
    std::memcpy(bytes.data() + file.find(tensor)->begin, &number, sizeof number);
  }
  testing::write_bytes(weights, bytes);
}

}  // namespace snug
