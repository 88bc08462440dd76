#include "checkpoint/output_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/notes.h"
#include "base/staged_file.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/model_directory.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

Error cannot_use(const fs::path& path, std::string_view why) {
  return usage_error("--out {}: {}", path.string(), why);
}

// Whether the open file is still the one of that name: its holder may have removed it.
bool is_still(int fd, const fs::path& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

// The process that holds the lock, as it wrote it; empty where it cannot be read.
std::string holder_of(const fs::path& lock) {
  std::array<char, 32> text{};
  const int fd = ::open(lock.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t n = ::read(fd, text.data(), text.size());
  ::close(fd);
  return n <= 0 ? ""
                : fmt::format(" (process {})",
                              trim(std::string_view(text.data(), static_cast<size_t>(n))));
}

}  // namespace

bool is_held(const fs::path& directory) {
  const int fd = ::open((directory / kLockFile).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

OutputDirectory::OutputDirectory(const fs::path& path) : path_(path) {
  try {
    make();
    lock();
  } catch (...) {
    remove_what_was_made();
    throw;
  }
  try {
    remove_interrupted_saves(path_);
  } catch (const Error& error) {  // the next save that cannot write either will say so, too
    note("--out {}: an interrupted save could not be cleared: {}", path_.string(), error.what());
  }
}

OutputDirectory::~OutputDirectory() {
  if (fd_ >= 0) {
    ::unlink((path_ / kLockFile).c_str());  // while it is locked: a waiting run looks at its name
    ::close(fd_);
  }
  remove_what_was_made();
}

void OutputDirectory::make() {
  std::error_code failure;
  fs::path at = fs::absolute(path_, failure);
  if (!at.has_filename()) at = at.parent_path();  // "runs/a/"
  std::vector<fs::path> missing;
  while (fs::symlink_status(at, failure).type() == fs::file_type::not_found) {
    missing.push_back(at);
    at = at.parent_path();
  }
  if (const fs::file_type type = fs::status(at, failure).type(); type != fs::file_type::directory) {
    const std::string why = type == fs::file_type::not_found ? " is a link to nothing"
                            : failure                        ? ": " + failure.message()
                                                             : " is not a directory";
    throw cannot_use(path_, at.string() + why);
  }
  for (auto next = missing.rbegin(); next != missing.rend(); ++next) {
    if (fs::create_directory(*next, failure)) {
      made_.push_back(*next);
      sync_directory(next->parent_path());
    }
    if (failure) {
      throw cannot_use(path_, fmt::format("cannot write in {}: {}", next->parent_path().string(),
                                          failure.message()));
    }
  }
}

void OutputDirectory::lock() {
  const fs::path file = path_ / kLockFile;
  while (true) {
    fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0)
      throw cannot_use(path_, fmt::format("cannot write in it: {}", std::strerror(errno)));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int reason = errno;
      ::close(std::exchange(fd_, -1));
      if (reason == EINTR) continue;
      if (reason == EWOULDBLOCK) {
        throw cannot_use(path_, fmt::format("another training{} writes to it", holder_of(file)))
            .hint("wait for it, or give this one a directory of its own");
      }
      // Some network file systems have no locks; training there is still worth something.
      note("--out {}: no lock against a second training: {}", path_.string(),
           std::strerror(reason));
      ::unlink(file.c_str());
      return;
    }
    if (is_still(fd_, file)) break;
    ::close(std::exchange(fd_, -1));
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  const bool written = ::ftruncate(fd_, 0) == 0 && ::write(fd_, pid.data(), pid.size()) > 0;
  if (!written) note("--out {}: {}", path_.string(), std::strerror(errno));
}

// Only those that are empty.
void OutputDirectory::remove_what_was_made() {
  std::error_code ignored;
  for (; !made_.empty(); made_.pop_back()) fs::remove(made_.back(), ignored);
}

void OutputDirectory::require_space(int64_t bytes) const {
  constexpr int64_t kOverhead = 16 << 20;  // config, tokenizer, names, what a file system rounds up
  struct statvfs facts {};
  if (::statvfs(path_.c_str(), &facts) != 0) return;
  const auto available = static_cast<double>(facts.f_bavail) * static_cast<double>(facts.f_frsize);
  if (static_cast<double>(bytes) + kOverhead <= available) return;
  throw bad_input("--out {}: model and checkpoints take {}, and its file system has {} free",
                  path_.string(), format_bytes(bytes),
                  format_bytes(static_cast<int64_t>(available)))
      .hint(
          "free some space, or give --out on another disk; an older model there is only replaced "
          "when the new one is complete");
}

}  // namespace snug
