#include "tokenizers/word_model.h"

namespace snug {

std::unique_ptr<TokenModel> read_model(const JsonPart& part, bool bytes) {
  // The oldest files do not say what they are: only BPE has merges.
  const std::string type = part.has("type") ? part.type() : part.has("merges") ? "BPE" : "";
  if (type == "BPE") return read_bpe(part, bytes);
  if (bytes) part.refuse("only BPE is understood after a ByteLevel pre-tokenizer");
  if (type == "WordPiece") return read_word_piece(part);
  if (type == "Unigram") return read_unigram(part);
  part.refuse_type();
}

}  // namespace snug
