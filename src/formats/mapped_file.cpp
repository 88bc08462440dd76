#include "formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace snug {
namespace {

// A mapping outlives its descriptor, so the descriptor is closed as soon as the constructor ends.
class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error cannot_read(const std::filesystem::path& path) {
  return bad_input("cannot read {}: {}", path.string(), std::strerror(errno));
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const Descriptor fd(path_);
  struct stat facts {};
  if (fd.get() < 0 || ::fstat(fd.get(), &facts) != 0) throw cannot_read(path_);
  if (S_ISDIR(facts.st_mode)) throw bad_input("{} is a directory, not a file", path_.string());
  if (!S_ISREG(facts.st_mode)) throw bad_input("{} is not a regular file", path_.string());
  const auto size = static_cast<size_t>(facts.st_size);
  if (size == 0) return;
  void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (start == MAP_FAILED) throw cannot_read(path_);
  bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace snug
