// DeepSpeed's configuration: what is read means something on any number of ranks, or is refused; and
// taking a key out of it leaves a configuration.
#include "recipe/deepspeed.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  fuzz::parse_or_refuse([&] {
    const DeepSpeedConfig file = DeepSpeedConfig::parse(fuzz::text(data, size), "ds.json");
    for (const int64_t ranks : {1, 8}) {
      const DeepSpeedPlace place{.ranks = ranks, .width = 64, .layers = 4, .batch_given = true};
      fuzz::parse_or_refuse([&] {
        const DeepSpeedMapped mapped = map_deepspeed(file, place);
        fuzz::require(mapped.lines.size() == file.entries().size(), "a key has no line");
        changed(Options{}, mapped.change);
      });
      if (!file.entries().empty()) {
        const DeepSpeedConfig fewer = file.without(file.entries().front().path);
        fuzz::parse_or_refuse([&] { map_deepspeed(fewer, place); });
      }
    }
  });
  return 0;
}
