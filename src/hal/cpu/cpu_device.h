// The CPU as a device: guarded, pre-faulted memory from the operating system.
#pragma once

#include <memory>

#include "hal/device.h"

namespace snug {

std::unique_ptr<Device> cpu_device();

// Bytes of anonymous memory that this process has resident, as the kernel counts them.
int64_t resident_anonymous_bytes();

// Physical memory of this machine, and what is available now, to this container where it has a
// limit.
int64_t total_memory_bytes();
int64_t available_memory_bytes();

// Would the system map so many bytes now? They are given back at once.
bool system_grants(int64_t bytes);

// In sanitizer builds, makes touching [data, data + bytes) an error, or legal again. Does nothing
// otherwise.
void forbid_access(const std::byte* data, int64_t bytes);
void allow_access(const std::byte* data, int64_t bytes);

}  // namespace snug
