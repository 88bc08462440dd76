#include "hal/cpu/cpu_name.h"

#include <fstream>

namespace snug {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace snug
