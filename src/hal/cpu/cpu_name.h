// What this machine's processor is called, "AMD EPYC 9654 96-Core Processor", and what of it is ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

// "CPU" where the system does not tell.
std::string cpu_name();

// The cores that this process may run on: "0;1;5;".
std::string cores_here();
int64_t count_cores(std::string_view cores);

}  // namespace snug
