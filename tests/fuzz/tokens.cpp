// Token files of llm.c, LLM.Q and nanoGPT, and text: as many tokens as are reported can be read.
#include <algorithm>
#include <array>

#include "data/token_stream.h"
#include "formats/token_file.h"
#include "fuzz/input.h"

namespace {

using namespace snug;

// The tokens at both ends of a stream or file.
template <typename Tokens>
void read_ends(const Tokens& tokens) {
  std::array<int32_t, 8> some{};
  const auto n = std::min<int64_t>(tokens.size(), some.size());
  tokens.copy(0, std::span(some).first(static_cast<size_t>(n)));
  tokens.copy(tokens.size() - n, std::span(some).first(static_cast<size_t>(n)));
}

}  // namespace

// The first byte chooses how the rest is opened.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr std::array<int64_t, 3> kTokenBytes{0, 2, 4};
  constexpr std::array<int64_t, 3> kVocabularies{100, 256, 50257};
  const int64_t token_bytes = kTokenBytes[data[0] % 3], V = kVocabularies[data[0] / 3 % 3];
  const auto path = fuzz::as_file(fuzz::text(data + 1, size - 1));
  fuzz::parse_or_refuse([&] { read_ends(TokenFile::open(path, {.token_bytes = token_bytes})); });
  fuzz::parse_or_refuse([&] { read_ends(*open_tokens(path, {V, token_bytes})); });
  return 0;
}
