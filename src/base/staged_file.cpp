#include "base/staged_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "base/error.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// Linux writes at most 2 GiB - 4 KiB in one call.
constexpr size_t kMaxWrite = size_t{1} << 30;

}  // namespace

Error cannot_write(const fs::path& path, int reason) {
  return bad_input("cannot write {}: {}", path.string(), std::strerror(reason));
}

StagedFile::StagedFile(fs::path target) : target_(std::move(target)) {
  std::random_device random;
  do {  // a name of our own, so that two writers of one target do not share it
    part_ = fmt::format("{}.{}-{:08x}.part", target_.string(), ::getpid(), random());
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (fd_ < 0 && errno == EEXIST);
  if (fd_ >= 0) return;
  part_.clear();
  throw cannot_write(target_, errno);
}

StagedFile::~StagedFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!part_.empty()) ::unlink(part_.c_str());
}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : target_(std::move(other.target_)),
      part_(std::exchange(other.part_, {})),
      fd_(std::exchange(other.fd_, -1)),
      written_(other.written_),
      sent_(other.sent_) {}

void StagedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxWrite));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw cannot_write(target_, errno);
    written_ += n;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  while (written_ - sent_ >= kWindow) send_window();
}

void StagedFile::rewrite(int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), std::min(bytes.size(), kMaxWrite), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw cannot_write(target_, errno);
    offset += n;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

// Two windows are on their way to the disk while the next is filled; what has arrived leaves the
// page cache. Where the system cannot, sync() does all of it. A write that fails later is
// reported to the first wait for it, and then no more.
void StagedFile::send_window() {
  ::sync_file_range(fd_, sent_, kWindow, SYNC_FILE_RANGE_WRITE);
  if (const int64_t done = sent_ - 2 * kWindow; done >= 0) {
    if (::sync_file_range(fd_, done, kWindow, SYNC_FILE_RANGE_WAIT_BEFORE) != 0 &&
        (errno == EIO || errno == ENOSPC || errno == EDQUOT))
      throw cannot_write(target_, errno);
    ::posix_fadvise(fd_, done, kWindow, POSIX_FADV_DONTNEED);
  }
  sent_ += kWindow;
}

void StagedFile::sync() {
  if (fd_ < 0) return;
  if (::fsync(fd_) != 0) throw cannot_write(target_, errno);
  if (::close(std::exchange(fd_, -1)) != 0) throw cannot_write(target_, errno);
}

void StagedFile::commit() {
  sync();
  if (::rename(part_.c_str(), target_.c_str()) != 0) throw cannot_write(target_, errno);
  part_.clear();
}

void sync_directory(const fs::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) return;  // one may write in it, and not open it
  if (fd < 0) throw cannot_write(directory, errno);
  const int reason = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some file systems cannot sync a directory; the files themselves are safe.
  if (reason != 0 && reason != EINVAL && reason != ENOTSUP && reason != ENOSYS)
    throw cannot_write(directory, reason);
}

}  // namespace snug
