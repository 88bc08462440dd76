#include "formats/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace snug {
namespace {

Error cannot_read(const std::filesystem::path& path) {
  return bad_input("cannot read {}: {}", path.string(), std::strerror(errno));
}

// Why a descriptor cannot be read by position; empty where it can.
std::string problem_with(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return fmt::format("cannot be read: {}", std::strerror(errno));
  if (S_ISDIR(facts.st_mode)) return "is a directory, not a file";
  return S_ISREG(facts.st_mode) ? "" : "is not a regular file";
}

}  // namespace

FileReader::FileReader(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
  if (fd_ < 0) throw cannot_read(path_);
  if (const std::string problem = problem_with(fd_); !problem.empty()) {
    ::close(fd_);
    throw bad_input("{} {}", path_.string(), problem);
  }
  size_ = ::lseek(fd_, 0, SEEK_END);
}

FileReader::~FileReader() {
  if (fd_ >= 0) ::close(fd_);
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

FileReader& FileReader::operator=(FileReader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  return *this;
}

void FileReader::read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw cannot_read(path_);
    if (n == 0) {
      throw bad_input("{} had {} bytes when it was opened and now ends before byte {}",
                      path_.string(), size_, offset + static_cast<int64_t>(out.size()))
          .hint("something truncated it while it was in use");
    }
    offset += n;
    out = out.subspan(static_cast<size_t>(n));
  }
}

void FileReader::each_block(
    int64_t offset,
    const std::function<bool(int64_t at, std::span<const std::byte>)>& visit) const {
  std::vector<std::byte> buffer(
      static_cast<size_t>(std::clamp<int64_t>(size_ - offset, 0, kBlock)));
  while (offset < size_) {
    const auto block =
        std::span(buffer).first(static_cast<size_t>(std::min<int64_t>(size_ - offset, kBlock)));
    read(offset, block);
    if (!visit(offset, block)) return;
    offset += static_cast<int64_t>(block.size());
  }
}

}  // namespace snug
