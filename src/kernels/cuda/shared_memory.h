// Shared memory beyond the 48 KiB that every device grants: 99 KiB on small chips, 227 on large
// ones. Who wants more than there is takes another kernel.
#pragma once

#include <cstdint>

namespace snug::ops {

// Bytes of dynamic shared memory that a block of this kernel may have beside its static arrays.
int64_t most_dynamic_shared(const void* kernel);

}  // namespace snug::ops
