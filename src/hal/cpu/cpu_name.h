// What this machine's processor is called: "AMD EPYC 9654 96-Core Processor".
#pragma once

#include <string>

namespace snug {

// "CPU" where the system does not tell.
std::string cpu_name();

}  // namespace snug
