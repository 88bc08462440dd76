// A memory snapshot of PyTorch as a subject of a page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "page/columns.h"
#include "pytorch/findings.h"
#include "report/inspect_report.h"

namespace snug {

// `command`: `snug plan` of what it is of, for the changes of `facts.plan`.
Json snapshot_subject(const InspectFacts& facts, const std::string& command);

// One device: what was allocated at each moment by owner, and every allocation as a rectangle of addresses and moments.
// Addresses that nothing had are left out of the map. `axis`: its index among the subject's.
struct DeviceOnPage {
  Json space, axis;
};
DeviceOnPage device_on_page(const pytorch::Snapshot& snapshot,
                            const pytorch::DeviceSnapshot& device,
                            const pytorch::DeviceFindings& findings, size_t axis, Texts& texts,
                            int64_t most_instants = kMostInstants,
                            int64_t most_values = kMostValues);

}  // namespace snug
