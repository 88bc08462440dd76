// Files that only save time: what was measured on this machine.
//
//   cache_file("products-" + slug("NVIDIA H200") + ".txt");
//   // ~/.cache/snug/products-nvidia-h200.txt
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace snug {

// ${XDG_CACHE_HOME:-$HOME/.cache}/snug/NAME; empty where neither is set.
std::filesystem::path cache_file(std::string_view name);

// A name as part of a file's name: small letters and digits, everything else a dash.
std::string slug(std::string_view name);

}  // namespace snug
