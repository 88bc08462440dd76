#include "hal/cpu/memory_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>

#include "base/number.h"
#include "base/text.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// How a version of control groups names its files.
struct Version {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* droppable;  // in memory.stat
};
constexpr Version kFirst{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file"};
constexpr Version kSecond{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

std::string text_of(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) ? read_file(file.string()) : "";
}

std::optional<int64_t> number_in(const fs::path& file) {
  int64_t number = 0;
  if (!read_number(trim(text_of(file)), number)) return {};  // "max": no limit
  return number;
}

int64_t droppable_bytes(const fs::path& group, const Version& version) {
  for (const std::string& line : split(text_of(group / "memory.stat"), '\n')) {
    int64_t bytes = 0;
    const std::string name = std::string(version.droppable) + " ";
    if (line.starts_with(name) && read_number(trim(line.substr(name.size())), bytes)) return bytes;
  }
  return 0;
}

std::optional<int64_t> left_in(const fs::path& group, const Version& version) {
  const auto limit = number_in(group / version.limit);
  const auto usage = number_in(group / version.usage);
  if (!limit || !usage) return {};
  return std::max<int64_t>(0, *limit - *usage + droppable_bytes(group, version));
}

std::optional<int64_t> smaller(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// A group is held by the limits of all groups above it.
std::optional<int64_t> left_on_the_way(const fs::path& mount, const fs::path& group,
                                       const Version& version) {
  std::optional<int64_t> least = left_in(mount, version);
  fs::path at = mount;
  for (const fs::path& part : group.relative_path()) {
    at /= part;
    least = smaller(least, left_in(at, version));
  }
  return least;
}

}  // namespace

std::optional<int64_t> memory_limit_left(const fs::path& root) {
  std::optional<int64_t> least;
  // "0::/a/b" is version 2, "9:memory:/a/b" and "4:cpu,memory:/a" are version 1.
  for (const std::string& line : split(text_of(root / "proc/self/cgroup"), '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() != 3) continue;
    const auto controllers = split(fields[1], ',');
    const bool second = fields[0] == "0" && fields[1].empty();
    if (!second && std::ranges::find(controllers, "memory") == controllers.end()) continue;
    const Version& version = second ? kSecond : kFirst;
    least = smaller(least, left_on_the_way(root / version.mount, fields[2], version));
  }
  return least;
}

std::optional<int64_t> lockable_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return static_cast<int64_t>(limit.rlim_cur);
}

}  // namespace snug
