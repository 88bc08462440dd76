#include "tokenizers/model.h"

namespace snug {

std::unique_ptr<TokenModel> read_unigram(const JsonPart& part) { part.refuse_type(); }

}  // namespace snug
