// A memory snapshot of PyTorch: what is accepted can be examined, and its bytes add up.
#include <numeric>

#include "fuzz/input.h"
#include "pytorch/findings.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  fuzz::parse_or_refuse([&] {
    const pytorch::Snapshot snapshot =
        pytorch::read_snapshot(fuzz::as_file(fuzz::text(data, size)));
    for (const pytorch::DeviceFindings& d : pytorch::examine(snapshot)) {
      const auto& bytes = d.peak.bytes;
      fuzz::require(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) == d.peak.allocated,
                    "the owners do not add up to the peak");
      for (const pytorch::Remedy& r : d.remedies)
        fuzz::require(r.peak + r.saves == d.peak.allocated, "a remedy does not add up");
    }
  });
  return 0;
}
