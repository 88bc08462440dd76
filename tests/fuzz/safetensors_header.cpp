// A safetensors file: a header that is accepted describes bytes that are there.
#include <algorithm>
#include <array>

#include "formats/safetensors.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  fuzz::parse_or_refuse([&] {
    const SafetensorsFile file(fuzz::as_file(fuzz::text(data, size)));
    for (const TensorEntry& tensor : file.tensors()) {
      std::array<std::byte, 16> last{};
      const auto bytes = std::min<int64_t>(tensor.bytes, last.size());
      tensor.read(tensor.bytes - bytes, std::span(last).first(static_cast<size_t>(bytes)));
      fuzz::require(file.contains(tensor.name), "a tensor is not found by its name");
    }
  });
  return 0;
}
