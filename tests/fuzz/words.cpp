// The words of options that have a grammar: what is read can be written, and reads back the same.
#include "base/units.h"
#include "fuzz/input.h"
#include "models/mlp.h"
#include "models/scaled.h"
#include "passes/host_update.h"
#include "passes/offload.h"
#include "passes/recompute_policy.h"

namespace {

using namespace snug;

template <typename Parse, typename Write>
void must_read_back(std::string_view word, Parse&& parse, Write&& write) {
  fuzz::parse_or_refuse([&] {
    const auto read = parse(word);
    fuzz::require(fuzz::parse_or_refuse([&] {
                    fuzz::require(parse(write(read)) == read, "an option reads back as another");
                  }),
                  "an option does not read back");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view word = fuzz::text(data, size);
  must_read_back(word, parse_offload, [](const Offload& o) { return text(o); });
  must_read_back(word, parse_host_update, [](const HostUpdate& u) { return text(u); });
  must_read_back(word, parse_recompute, [](const RecomputePolicy& p) { return option_text(p); });
  fuzz::parse_or_refuse([&] { format_bytes(parse_bytes(word)); });
  fuzz::parse_or_refuse([&] { parse_mlp(word); });
  fuzz::parse_or_refuse([&] { parse_scaled(word); });
  return 0;
}
