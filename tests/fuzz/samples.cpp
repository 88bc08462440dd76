// A file of samples: as many words as the header counts can be read, and samples cover them.
#include "formats/sample_file.h"

#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  const auto path = fuzz::as_file(fuzz::text(data, size));
  fuzz::parse_or_refuse([&] {
    const SampleFile file = SampleFile::open(path);
    int64_t at = 0, samples = 0;
    file.each([&](int64_t begin, std::span<const int32_t> words) {
      fuzz::require(begin == at && !words.empty(), "samples do not follow each other");
      at += static_cast<int64_t>(words.size());
      ++samples;
    });
    fuzz::require(at == file.tokens() && samples == file.samples(), "samples leave words out");
  });
  return 0;
}
