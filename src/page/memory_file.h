// A profile's memory.jsonl for a page: memory by category over the first step that was measured, as drawings of memory want it.
#pragma once

#include <filesystem>

#include "page/columns.h"

namespace snug {

struct MemoryOnPage {
  Json axes = Json::array(),
       spaces = Json::array();  // of a subject; each space has an axis of its own
  int64_t device_peak = 0;
  int64_t left_out = 0;    // lines: more than are kept in memory
  int64_t unreadable = 0;  // lines
};

struct StepTimes {
  double begin = 0, end = 0;  // seconds
};

// Of more lines than `most`, those with most bytes are drawn.
MemoryOnPage read_memory(const std::filesystem::path& file, const StepTimes& step, Texts& texts,
                         const std::vector<std::string>& layers, int64_t most);

}  // namespace snug
