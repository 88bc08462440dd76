// The words of options that have a grammar: what is read can be written, and reads back the same.
#include "base/units.h"
#include "fuzz/input.h"
#include "models/parts/mlp.h"
#include "models/scaled.h"
#include "settings/option.h"
#include "settings/parse.h"

namespace {

using namespace snug;

void must_read_back(std::string_view word, const Option& option) {
  fuzz::parse_or_refuse([&] {
    Options read;
    parse_option(option, read, word);
    fuzz::require(fuzz::parse_or_refuse([&] {
                    Options again;
                    parse_option(option, again, option.text(read));
                    fuzz::require(option.text(again) == option.text(read),
                                  "an option reads back as another");
                  }),
                  "an option does not read back");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view word = fuzz::text(data, size);
  for (const Option& option : all_options()) must_read_back(word, option);
  fuzz::parse_or_refuse([&] { format_bytes(parse_bytes(word)); });
  fuzz::parse_or_refuse([&] { parse_mlp(word); });
  fuzz::parse_or_refuse([&] { parse_scaled(word); });
  return 0;
}
