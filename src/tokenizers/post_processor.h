// What a tokenizer puts around a text: [CLS] ... [SEP], or <|begin_of_text|> ...
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizers/json_part.h"

namespace snug {

struct AroundText {
  std::vector<int32_t> before, after;
};

// Throws bad_input for a part that is not understood.
AroundText read_post_processor(const JsonPart& part);

}  // namespace snug
