// A model's config.json: what is read can be written, and then reads back as the same model.
#include "fuzz/input.h"
#include "models/families/hf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  HfConfig config;
  if (!fuzz::parse_or_refuse(
          [&] { config = parse_hf_config(fuzz::text(data, size), "config.json"); }))
    return 0;
  fuzz::parse_or_refuse([&] { check_sequence(config, 1024); });
  const std::string written = to_json(config);
  fuzz::require(to_json(parse_hf_config(written, "config.json")) == written,
                "a config.json does not read back as it was written");
  return 0;
}
