// Programs as text: what parses prints as a text that parses to the same, and the verifier has an
// answer to it.
#include "fuzz/input.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  Module module;
  if (!fuzz::parse_or_refuse([&] { module = parse(fuzz::text(data, size), ops::registry()); }))
    return 0;
  const std::string printed = print(module);
  fuzz::require(print(parse(printed, ops::registry())) == printed,
                "a program does not read back as it was printed");
  try {
    verify(module);
  } catch (const Error&) {  // no sound program
  }
  return 0;
}
