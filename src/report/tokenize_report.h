// What `snug tokenize` says when it is done.
#pragma once

#include <string>

#include "snug/snug.h"

namespace snug {

// "12,345 tokens below 50,257 from 3 documents (48.2 KiB, 3.9 bytes a token) are in tokens.bin"
std::string tokenize_line(const TokenizeReport& report);
std::string tokenize_json(const TokenizeReport& report);

}  // namespace snug
