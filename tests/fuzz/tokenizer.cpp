// tokenizer.json, up to a zero byte, and a text after it: what is read encodes any text to ids that
// it has, and cut texts to the same ids.
#include "tokenizers/tokenizer.h"

#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  const std::string_view input = fuzz::text(data, size);
  const size_t end = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(std::min(end + 1, input.size()));
  fuzz::parse_or_refuse([&] {
    const Tokenizer tokenizer = Tokenizer::parse(input.substr(0, end), "tokenizer.json");
    Encoder encoder(tokenizer);
    std::vector<int32_t> ids, again;
    encoder.encode(text, ids, true);
    encoder.encode(text, again, true);
    fuzz::require(ids == again, "a text has other ids the second time");
    for (const int32_t id : ids)
      fuzz::require(id >= 0 && id < tokenizer.vocabulary(), "an id is beyond the vocabulary");
    tokenizer.decode(ids, false);
  });
  return 0;
}
