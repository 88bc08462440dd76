// The system calls that write files, under their own names: the linker takes these for this program
// and for the C++ library it runs with, and each calls the real one. Compiled apart.
//
// fsync never reaches the disk: tests here count what would, and would wait for it otherwise.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <filesystem>
#include <string>

#include "faults/watched_calls.h"

namespace {

using snug::testing::DiskModel;
using snug::testing::WatchedCall;

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Absolute, with links of the folder of an open file followed.
std::filesystem::path at(int folder, const char* path) {
  std::filesystem::path name = path;
  if (name.is_absolute()) return name.lexically_normal();
  const std::string link = folder == AT_FDCWD ? std::string("/proc/self/cwd")
                                              : "/proc/self/fd/" + std::to_string(folder);
  std::array<char, PATH_MAX> target{};
  const ssize_t n = ::readlink(link.c_str(), target.data(), target.size());
  if (n <= 0) return name;
  return (std::filesystem::path(std::string(target.data(), static_cast<size_t>(n))) / name)
      .lexically_normal();
}

constexpr auto kNothing = [](DiskModel&) {};

int open_at(int folder, const char* path, int flags, mode_t mode) {
  WatchedCall call((flags & O_CREAT) != 0 ? "create" : "open", {at(folder, path)});
  if (call.fails()) return -1;
  static auto* const next = real<int(int, const char*, int, ...)>("openat");
  const int fd = next(folder, path, flags, mode);
  call.opened(fd);
  return call.done(fd,
                   [&](DiskModel& disk) { call.is_node(fd, disk.open(at(folder, path), flags)); });
}

// The bytes that another call put into `fd` just before its place.
std::string bytes_before(int fd, int64_t end, int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  static auto* const open_next = real<int(int, const char*, int, ...)>("openat");
  static auto* const close_next = real<int(int)>("close");
  const int again = open_next(AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (::pread(again, bytes.data(), bytes.size(), end - count) != count) bytes.clear();
  close_next(again);
  return bytes;
}

// A write by `next`, which takes how many bytes.
template <typename Next>
ssize_t write_by(int fd, size_t count, const Next& next, int64_t offset = -1) {
  WatchedCall call("write", fd);
  if (call.fails()) return -1;
  const ssize_t written = next(call.shortened(count));
  return call.done(written, [&](DiskModel& disk) {
    const int64_t end = offset < 0 ? ::lseek(fd, 0, SEEK_CUR) : offset + written;
    if (written > 0) disk.write(call.node(), end - written, bytes_before(fd, end, written));
  });
}

int sync_by(const char* name, int fd) {
  WatchedCall call(name, fd);
  if (call.fails()) return -1;
  return call.done(0, [&](DiskModel& disk) { disk.sync(call.node()); });
}

int resize_by(const char* name, int fd, off_t bytes) {
  WatchedCall call(name, fd);
  if (call.fails()) return -1;
  static auto* const next = real<int(int, off_t)>("ftruncate");
  return call.done(next(fd, bytes), [&](DiskModel& disk) { disk.resize(call.node(), bytes); });
}

int rename_at(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  const std::filesystem::path source = at(from_folder, from), target = at(to_folder, to);
  const bool exchange = (flags & RENAME_EXCHANGE) != 0;
  WatchedCall call(exchange ? "exchange" : "rename", {source, target});
  if (call.fails()) return -1;
  static auto* const next = real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return call.done(next(from_folder, from, to_folder, to, flags), [&](DiskModel& disk) {
    if (exchange)
      disk.exchange(source, target);
    else
      disk.rename(source, target);
  });
}

int unlink_at(int folder, const char* path, int flags) {
  const std::filesystem::path name = at(folder, path);
  WatchedCall call((flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", {name});
  if (call.fails()) return -1;
  static auto* const next = real<int(int, const char*, int)>("unlinkat");
  return call.done(next(folder, path, flags), [&](DiskModel& disk) { disk.remove(name); });
}

int mkdir_at(int folder, const char* path, mode_t mode) {
  const std::filesystem::path name = at(folder, path);
  WatchedCall call("mkdir", {name});
  if (call.fails()) return -1;
  static auto* const next = real<int(int, const char*, mode_t)>("mkdirat");
  return call.done(next(folder, path, mode), [&](DiskModel& disk) { disk.make_folder(name); });
}

int link_at(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  const std::filesystem::path source = at(from_folder, from), target = at(to_folder, to);
  WatchedCall call("link", {source, target});
  if (call.fails()) return -1;
  static auto* const next = real<int(int, const char*, int, const char*, int)>("linkat");
  return call.done(next(from_folder, from, to_folder, to, flags),
                   [&](DiskModel& disk) { disk.link(source, target); });
}

int allocate_by(const char* name, int fd, int mode, off_t offset, off_t bytes) {
  WatchedCall call(name, fd);
  if (call.fails()) return -1;
  static auto* const next = real<int(int, int, off_t, off_t)>("fallocate");
  return call.done(next(fd, mode, offset, bytes), [&](DiskModel& disk) {
    struct stat now {};
    if (::fstat(fd, &now) == 0) disk.resize(call.node(), now.st_size);
  });
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

#define SNUG_OPEN(name, parameters, folder)        \
  int name parameters {                            \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    return open_at(folder, path, flags, mode);     \
  }
SNUG_OPEN(open, (const char* path, int flags, ...), AT_FDCWD)
SNUG_OPEN(open64, (const char* path, int flags, ...), AT_FDCWD)
SNUG_OPEN(openat, (int folder, const char* path, int flags, ...), folder)
SNUG_OPEN(openat64, (int folder, const char* path, int flags, ...), folder)
#undef SNUG_OPEN

ssize_t write(int fd, const void* bytes, size_t count) {
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  return write_by(fd, count, [&](size_t n) { return next(fd, bytes, n); });
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  static auto* const next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return write_by(
      fd, count, [&](size_t n) { return next(fd, bytes, n, offset); }, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset) {
  return pwrite(fd, bytes, count, offset);
}
ssize_t sendfile(int to, int from, off_t* offset, size_t count) noexcept {
  static auto* const next = real<ssize_t(int, int, off_t*, size_t)>("sendfile");
  return write_by(to, count, [&](size_t n) { return next(to, from, offset, n); });
}
ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t count,
                        unsigned flags) {
  using Copy = ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned);
  static auto* const next = real<Copy>("copy_file_range");
  return write_by(
      to, count, [&](size_t n) { return next(from, from_offset, to, to_offset, n, flags); },
      to_offset == nullptr ? -1 : *to_offset);
}

int fsync(int fd) { return sync_by("fsync", fd); }
int fdatasync(int fd) { return sync_by("fdatasync", fd); }
// Sends bytes, and makes nothing durable.
int sync_file_range(int fd, off64_t, off64_t, unsigned flags) {
  const bool waits = (flags & SYNC_FILE_RANGE_WAIT_BEFORE) != 0;
  WatchedCall call(waits ? "wait_for_range" : "send_range", fd);
  return call.fails() ? -1 : call.done(0, kNothing);
}
int ftruncate(int fd, off_t bytes) noexcept { return resize_by("ftruncate", fd, bytes); }
int ftruncate64(int fd, off64_t bytes) noexcept { return resize_by("ftruncate", fd, bytes); }
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return allocate_by("fallocate", fd, mode, offset, bytes);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t bytes) {
  return allocate_by("fallocate", fd, mode, offset, bytes);
}
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  return allocate_by("fallocate", fd, 0, offset, bytes) == 0 ? 0 : errno;
}

// A close that fails has closed the file, as Linux does it.
int close(int fd) {
  WatchedCall call("close", fd);
  const bool fails = call.fails();
  const int reason = errno;
  static auto* const next = real<int(int)>("close");
  WatchedCall::closed(fd);
  const int result = next(fd);
  if (!fails) return call.done(result, kNothing);
  errno = reason;
  return -1;
}

// No call of its own, but it closes a file.
int closedir(DIR* folder) {
  WatchedCall::closed(::dirfd(folder));
  static auto* const next = real<int(DIR*)>("closedir");
  return next(folder);
}

int rename(const char* from, const char* to) noexcept {
  return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return rename_at(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  return rename_at(from_folder, from, to_folder, to, flags);
}
int unlink(const char* path) noexcept { return unlink_at(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return unlink_at(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int folder, const char* path, int flags) noexcept {
  return unlink_at(folder, path, flags);
}
int mkdir(const char* path, mode_t mode) noexcept { return mkdir_at(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  return mkdir_at(folder, path, mode);
}
int remove(const char* path) noexcept {
  struct stat now {};
  const bool is_folder = ::lstat(path, &now) == 0 && S_ISDIR(now.st_mode);
  return unlink_at(AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}
int link(const char* from, const char* to) noexcept {
  return link_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  return link_at(from_folder, from, to_folder, to, flags);
}

}  // extern "C"
