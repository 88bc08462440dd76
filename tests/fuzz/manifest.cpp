// The manifest of a checkpoint: what is read is written the same. The input is what its checksum is
// of, for no damage gets past a checksum that is wrong.
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "checkpoint/run_manifest.h"
#include "formats/json_fields.h"
#include "fuzz/input.h"

namespace {

using namespace snug;

RunManifest read(std::string_view manifest, std::string_view checksum) {
  return parse_manifest(fmt::format(R"({{"manifest":{},"xxh64":"{}"}})", manifest, checksum),
                        "manifest.json");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view manifest = fuzz::text(data, size);
  fuzz::parse_or_refuse([&] { read(manifest, "0000000000000000"); });
  fuzz::parse_or_refuse([&] {
    const std::string plain = parse_json_object(manifest, "manifest.json").dump();
    const std::string written = manifest_text(read(plain, checksum_text(plain)));
    fuzz::require(manifest_text(parse_manifest(written, "manifest.json")) == written,
                  "a manifest does not read back as it was written");
  });
  return 0;
}
