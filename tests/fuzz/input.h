// What fuzz targets share. A target is one file with LLVMFuzzerTestOneInput, as libFuzzer calls it:
//
//   extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
//     fuzz::parse_or_refuse([&] { parse_hf_config(fuzz::text(data, size), "config.json"); });
//     return 0;
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/error.h"

namespace snug::fuzz {

inline std::string_view text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// False where the input is refused. Whatever else is thrown, our own internal errors among it, ends
// the process, and the fuzzer keeps the input.
template <typename Parse>
bool parse_or_refuse(Parse&& parse) {
  try {
    parse();
    return true;
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
    return false;
  }
}

// For what must hold of whatever was parsed: that it reads back, for example.
inline void require(bool holds, std::string_view what) {
  if (!holds) throw internal_error("{}", what);
}

// The input as a file that a parser opens by its path. It is in memory, and replaced by the next.
std::filesystem::path as_file(std::string_view bytes);

}  // namespace snug::fuzz
