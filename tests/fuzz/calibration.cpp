// A calibration from the cache: a damaged one is ignored, one that is used costs every op a time.
#include <cmath>

#include "cost/measured_times.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  const auto measured = read_calibration(fuzz::as_file(fuzz::text(data, size)), "NVIDIA H200");
  if (!measured) return 0;
  const DeviceSpec spec = with_measured_rates(find_device("h200"), *measured);
  const MeasuredTimes times(*measured, spec, 2e-6);
  for (const OpSample& sample : measured->samples) {
    const auto seconds = times.seconds(sample);
    fuzz::require(!seconds || !std::isnan(*seconds), "an op that was measured costs no number");
  }
  return 0;
}
