// What most files include and none changes, parsed once per build (SNUG_PRECOMPILE). Every file still includes what it
// uses: a build without this must pass, and clang-tidy sees the files so. Not nlohmann/json.hpp: its inline functions make
// each file that sees it instantiate a whole parser at its end, 1.1 s.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
