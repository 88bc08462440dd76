// Megatron's index: what it counts is in it.
#include "formats/megatron_index.h"

#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  const auto path = fuzz::as_file(fuzz::text(data, size));
  fuzz::parse_or_refuse([&] {
    const MegatronIndex index = read_megatron_index(path);
    fuzz::require(index.sequences >= 0 && static_cast<size_t>(index.sequences) <= size / 12,
                  "more sequences than bytes");
    fuzz::require(index.tokens >= 0, "fewer tokens than none");
  });
  return 0;
}
