// What `snug inspect` says of a memory snapshot of PyTorch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/paint.h"
#include "pytorch/findings.h"

namespace snug {

// A remedy as a change of Snug's plan of the same model.
struct PricedChange {
  std::string remedy;  // its name among the findings' remedies, or one of its own
  std::string flags;   // "--recompute full"
  int64_t peak_bytes = 0, saves_bytes = 0;
  double step_ms = 0, more_ms = 0;
};

// The plan that is nearest to what PyTorch did, and changes to it.
struct PricedPlan {
  std::string what;  // "gpt2 on NVIDIA H200, batch 8 x 1024, fp32"
  int64_t peak_bytes = 0;
  double step_ms = 0;
  std::string rests_on;  // what the times were modelled from
  std::vector<PricedChange> changes;
};

struct InspectFacts {
  std::string file;
  bool blocks = false;
  const pytorch::Snapshot* snapshot = nullptr;
  std::vector<pytorch::DeviceFindings> devices;
  std::optional<PricedPlan> plan;
};

std::string inspect_table(const InspectFacts& facts, const Paint& paint);
// One object: `file`, `allocator`, `devices`, `plan`.
std::string inspect_json(const InspectFacts& facts);

// "1.2 GiB idle of 8.0 GiB: ..."
std::string idle_text(const pytorch::Fragmentation& f);
// "backward", "forward", "the update", ...; empty: not known
std::string_view phase_words(pytorch::Phase phase);

}  // namespace snug
