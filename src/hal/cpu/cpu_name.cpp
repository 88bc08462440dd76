#include "hal/cpu/cpu_name.h"

#include <sched.h>

#include <algorithm>
#include <fstream>

#include "base/parallel.h"

namespace snug {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "CPU";
}

std::string cores_here() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string out;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0)  // there are more than a set has room for
    for (size_t core = 0; core < cores(); ++core) CPU_SET(core, &set);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) out += std::to_string(core) + ';';
  return out;
}

int64_t count_cores(std::string_view cores) { return std::ranges::count(cores, ';'); }

}  // namespace snug
