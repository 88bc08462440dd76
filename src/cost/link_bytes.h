// What a rank sends to others in a step, by the link that it takes: to ranks of its machine, or to
// other machines. A mean over the ranks: in a ring only the last of a machine sends to the next one.
//
//   link_bytes(module, find_device("h100").wire).between;
#pragma once

#include "cost/device_catalogue.h"
#include "ir/program.h"

namespace snug {

struct LinkBytes {
  int64_t within = 0, between = 0;
};
LinkBytes link_bytes(const Module& module, const Wire& wire);

}  // namespace snug
