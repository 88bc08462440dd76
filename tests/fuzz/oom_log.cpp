// The log of a run that ran out of memory: any text has an answer.
#include "pytorch/oom_log.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace snug;
  fuzz::parse_or_refuse([&] {
    const auto log = pytorch::read_oom_log(fuzz::as_file(fuzz::text(data, size)));
    if (!log) return;
    fuzz::require(log->times > 0 && log->line > 0, "an error is nowhere");
    for (const auto& bytes : {log->asked, log->total, log->free, log->allocated, log->unused})
      fuzz::require(!bytes || *bytes >= 0, "bytes are below zero");
  });
  return 0;
}
