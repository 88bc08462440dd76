#include "fuzz/input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace snug::fuzz {

std::filesystem::path as_file(std::string_view bytes) {
  static const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw internal_error("cannot write an input: {}", std::strerror(errno));
  static const std::filesystem::path path = fmt::format("/proc/self/fd/{}", fd);
  return path;
}

}  // namespace snug::fuzz
