// An adapter's adapter_config.json: what is read can be written, and then reads back as the same.
#include "formats/peft_config.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  PeftConfig config;
  if (!fuzz::parse_or_refuse(
          [&] { config = PeftConfig::parse(fuzz::text(data, size), "adapter_config.json"); }))
    return 0;
  const bool all = config.targets == std::vector<std::string>{"all"};
  const std::string written = config.json();
  fuzz::require(all || PeftConfig::parse(written, "adapter_config.json").json() == written,
                "an adapter_config.json does not read back as it was written");
  return 0;
}
