// What `snug sample` says when it is done.
#pragma once

#include <string>

#include "snug/snug.h"

namespace snug {

// "32 tokens in 1.2 s, 26.7 tokens/s, after a prompt of 5; ended by max tokens"
std::string sample_line(const SampleReport& report);
std::string sample_json(const SampleReport& report);

}  // namespace snug
