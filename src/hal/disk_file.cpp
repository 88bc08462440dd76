#include "hal/disk_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace snug {
namespace {

constexpr int64_t kBounce = 16 * DiskFile::kGrain;  // on the carrier's stack

int64_t grains_in(int64_t n) { return n / DiskFile::kGrain * DiskFile::kGrain; }
int64_t grains_over(int64_t n) { return round_up(n, DiskFile::kGrain); }

bool is_aligned(const std::byte* at) {
  return reinterpret_cast<uintptr_t>(at) % DiskFile::kGrain == 0;
}

std::string random_name() {
  std::random_device random;
  return fmt::format(".snug-offload-{:08x}{:08x}", random(), random());
}

// Beyond it the system ends the process with a signal.
void require_file_size_limit(const std::string& directory, int64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      static_cast<uint64_t>(bytes) <= limit.rlim_cur)
    return;
  throw does_not_fit("the offload file in {} needs {} ({} bytes), and `ulimit -f` allows {} bytes",
                     directory, format_bytes(bytes), format_exact(bytes),
                     format_exact(static_cast<int64_t>(limit.rlim_cur)))
      .hint("raise that limit, or plan inside it with --disk-budget");
}

Error too_small(const std::string& directory, int64_t bytes, int64_t free) {
  return does_not_fit("the offload file in {} needs {} ({} bytes), and {} ({} bytes) are free",
                      directory, format_bytes(bytes), format_exact(bytes), format_bytes(free),
                      format_exact(free))
      .hint(fmt::format("--disk-budget {}MiB plans inside that; or give --offload-dir on a larger "
                        "disk",
                        free >> 20));
}

}  // namespace

// --- one transfer --------------------------------------------------------------------------------

struct DiskFile::Request {
  bool writes = false;
  int64_t begin = 0, end = 0;
  std::byte* memory = nullptr;  // nullptr: `value` everywhere
  uint8_t value = 0;
  bool rest_is_free = false;

  // Under the carriers' mutex.
  int64_t next_block = 0, under_way = 0;
  std::exception_ptr failure = nullptr;

  int64_t blocks() const { return (end - 1) / kBlock - begin / kBlock + 1; }
  int64_t first_of(int64_t block) const {
    return std::max(begin, (begin / kBlock + block) * kBlock);
  }
  int64_t end_of(int64_t block) const {
    return std::min(end, (begin / kBlock + block + 1) * kBlock);
  }
  bool has_more() const { return next_block < blocks() && !failure; }

  std::byte* at(int64_t offset) const { return memory + (offset - begin); }
  void take(std::byte* to, int64_t from, int64_t n) const {
    if (memory != nullptr) {
      std::memcpy(to, at(from), static_cast<size_t>(n));
    } else {
      std::memset(to, value, static_cast<size_t>(n));
    }
  }
};

// Threads that carry blocks of whatever requests there are. They begin with the first request of
// several blocks, whose caller carries too: where the system grants no threads it does so alone.
class DiskFile::Carriers {
 public:
  explicit Carriers(const DiskFile& file) : file_(file) {}
  ~Carriers() {
    {
      const std::scoped_lock lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Carriers(const Carriers&) = delete;
  Carriers& operator=(const Carriers&) = delete;

  void carry(Request& request) {
    std::unique_lock lock(mutex_);
    if (request.blocks() > 1) {
      start_threads();
      requests_.push_back(&request);
      changed_.notify_all();
    }
    while (request.has_more()) carry_one(request, lock);
    std::erase(requests_, &request);
    ended_.wait(lock, [&] { return request.under_way == 0; });
    if (request.failure) std::rethrow_exception(request.failure);
  }

 private:
  void start_threads() {
    if (!threads_.empty()) return;
    try {
      for (int i = 1; i < kDepth; ++i) threads_.emplace_back([this] { stay(); });
    } catch (const std::system_error&) {  // those that there are do it
    }
  }

  void stay() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return leaving_ || next() != nullptr; });
      if (leaving_) return;
      carry_one(*next(), lock);
    }
  }

  Request* next() const {
    const auto found =
        std::ranges::find_if(requests_, [](const Request* r) { return r->has_more(); });
    return found == requests_.end() ? nullptr : *found;
  }

  void carry_one(Request& request, std::unique_lock<std::mutex>& lock) {
    const int64_t block = request.next_block++;
    ++request.under_way;
    lock.unlock();
    std::exception_ptr failure;
    try {
      file_.carry_block(request, request.first_of(block), request.end_of(block),
                        [&](std::byte* memory, int64_t offset, int64_t bytes) {
                          file_.transfer(request.writes, memory, offset, bytes);
                        });
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !request.failure) request.failure = failure;
    if (--request.under_way == 0) ended_.notify_all();
  }

  const DiskFile& file_;
  std::mutex mutex_;
  std::condition_variable changed_, ended_;
  std::deque<Request*> requests_;
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

// --- the file ------------------------------------------------------------------------------------

DiskFile::Calls DiskFile::system_calls() { return {::pread, ::pwrite, /*ring=*/true}; }

DiskFile::DiskFile(std::string directory, int64_t bytes, Calls calls)
    : directory_(std::move(directory)),
      bytes_(bytes),
      calls_(calls),
      carriers_(std::make_unique<Carriers>(*this)) {
  if (const int64_t free = free_disk_bytes(directory_); grains_over(bytes) > free)
    throw too_small(directory_, bytes, free);
  require_file_size_limit(directory_, grains_over(bytes));
  open_file();
  try {
    allocate();
    try_direct();
    if (auto ring = calls.ring ? DiskRing::open(kDepth) : nullptr) {
      by_ring_ = true;
      rings_.push_back(std::move(ring));
    }
  } catch (...) {
    close(fd_);
    throw;
  }
}

DiskFile::~DiskFile() {
  carriers_.reset();
  close(fd_);
}

// Without a name from the first, where the file system has such files; else its name goes once it is
// open.
void DiskFile::open_file() {
  const auto refuse = [&] {
    throw bad_input("--offload-dir {}: no file can be made there: {}", directory_,
                    std::strerror(errno))
        .hint("give a directory on a local disk that you may write");
  };
  fd_ = open(directory_.c_str(), O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC, 0600);
  if (fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    const std::string path = directory_ + "/" + random_name();
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd_ >= 0 && unlink(path.c_str()) != 0) {
      const int reason = errno;
      close(std::exchange(fd_, -1));
      errno = reason;
    }
  }
  if (fd_ < 0) refuse();
  struct statfs system {};
  in_memory_ =
      fstatfs(fd_, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

void DiskFile::allocate() {
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(fd_, 0, std::max(grains_over(bytes_), kGrain));
  if (error == 0) return;
  if (error == ENOSPC || error == EDQUOT)
    throw too_small(directory_, bytes_, free_disk_bytes(directory_));
  throw bad_input("--offload-dir {}: the system does not make a file of {} ({} bytes): {}",
                  directory_, format_bytes(bytes_), format_exact(bytes_), std::strerror(error));
}

// Some file systems take the flag and refuse the transfer.
void DiskFile::try_direct() {
  const int flags = fcntl(fd_, F_GETFL);
  if (fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) return;
  alignas(kGrain) std::byte grain[kGrain] = {};
  direct_ = ::pread(fd_, grain, kGrain, 0) == kGrain && ::pwrite(fd_, grain, kGrain, 0) == kGrain;
  if (!direct_) fcntl(fd_, F_SETFL, flags);
}

std::vector<std::string> DiskFile::notes() const {
  std::vector<std::string> out;
  if (in_memory_) {
    out.push_back(
        fmt::format("--offload-dir {} is on tmpfs: its files take host memory, "
                    "beyond --host-budget",
                    directory_));
  } else if (!direct_) {
    out.push_back(
        fmt::format("--offload-dir {} does not take direct I/O: its files go "
                    "through the page cache",
                    directory_));
  }
  return out;
}

void DiskFile::read(int64_t offset, std::span<std::byte> to) {
  Request request{
      .begin = offset, .end = offset + static_cast<int64_t>(to.size()), .memory = to.data()};
  carry(request, reads_);
}

// The request only reads its memory.
void DiskFile::write(int64_t offset, std::span<const std::byte> from, bool rest_is_free) {
  Request request{.writes = true,
                  .begin = offset,
                  .end = offset + static_cast<int64_t>(from.size()),
                  .memory = const_cast<std::byte*>(from.data()),
                  .rest_is_free = rest_is_free};
  carry(request, writes_);
}

void DiskFile::fill(int64_t offset, int64_t bytes, uint8_t value) {
  Request request{.writes = true, .begin = offset, .end = offset + bytes, .value = value};
  carry(request, writes_);
}

void DiskFile::carry(Request& request, Counted& counted) {
  if (request.begin < 0 || request.end > bytes_)
    throw internal_error("bytes {} to {} of an offload file that has {}", request.begin,
                         request.end, bytes_);
  if (request.begin == request.end) return;
  const auto start = std::chrono::steady_clock::now();
  if (auto ring = by_ring_ && suits_ring(request) ? take_ring() : nullptr) {
    carry_by_ring(request, *ring);
    const std::scoped_lock lock(rings_mutex_);
    rings_.push_back(std::move(ring));
  } else {
    carriers_->carry(request);
  }
  ++counted.transfers;
  counted.bytes += request.end - request.begin;
  counted.nanoseconds +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count();
  if (!request.writes) return;
  int64_t high = high_water_;
  while (high < request.end && !high_water_.compare_exchange_weak(high, request.end)) {
  }
}

// Several blocks that need no copy: threads copy side by side.
bool DiskFile::suits_ring(const Request& request) const {
  if (request.blocks() == 1 || request.memory == nullptr) return false;
  return !direct_ || is_aligned(request.memory - request.begin % kGrain);
}

// nullptr where the system gives no more: threads do it then.
std::unique_ptr<DiskRing> DiskFile::take_ring() {
  const std::scoped_lock lock(rings_mutex_);
  if (rings_.empty()) return DiskRing::open(kDepth);
  std::unique_ptr<DiskRing> ring = std::move(rings_.back());
  rings_.pop_back();
  return ring;
}

// What the kernel did a part of, or none, is done here: there it goes on, or fails with its name.
void DiskFile::carry_by_ring(const Request& request, DiskRing& ring) const {
  std::vector<DiskRing::Transfer> pushed;
  pushed.reserve(static_cast<size_t>(request.blocks()));
  int under_way = 0;
  std::exception_ptr failure;
  const auto settle_one = [&] {
    --under_way;
    const DiskRing::Done done = ring.wait();
    const DiskRing::Transfer& t = pushed[done.tag];
    int64_t moved = std::max<int64_t>(0, done.result);
    if (direct_) moved = grains_in(moved);
    if (moved < t.bytes && !failure)
      transfer(t.writes, t.memory + moved, t.offset + moved, t.bytes - moved);
  };
  const auto keeping_failure = [&](const auto& work) {
    try {
      work();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  for (int64_t block = 0; block < request.blocks() && !failure; ++block) {
    keeping_failure([&] {
      carry_block(request, request.first_of(block), request.end_of(block),
                  [&](std::byte* memory, int64_t offset, int64_t bytes) {
                    if (under_way == kDepth) settle_one();
                    pushed.push_back({request.writes, fd_, memory, offset, bytes, pushed.size()});
                    ring.push(pushed.back());
                    ++under_way;
                  });
    });
  }
  while (under_way > 0) keeping_failure(settle_one);
  if (failure) std::rethrow_exception(failure);
}

// Direct: whole grains as they are, the ends through memory of our own.
void DiskFile::carry_block(const Request& request, int64_t begin, int64_t end,
                           const Move& move) const {
  const bool copied = request.memory == nullptr;
  if (!direct_) {
    if (copied) return carry_copied(request, begin, end);
    return move(request.at(begin), begin, end - begin);
  }
  const int64_t first = std::min(end, grains_over(begin));
  const int64_t last = std::max(first, grains_in(end));
  if (begin < first) carry_edge(request, begin, first);
  if (first < last) {
    if (!copied && is_aligned(request.at(first))) {
      move(request.at(first), first, last - first);
    } else {
      carry_copied(request, first, last);
    }
  }
  if (last < end) carry_edge(request, last, end);
}

// A part of one grain: what is around it stays.
void DiskFile::carry_edge(const Request& request, int64_t begin, int64_t end) const {
  alignas(kGrain) std::byte grain[kGrain] = {};
  const int64_t start = grains_in(begin);
  const bool alone = begin == start && end == request.end && request.rest_is_free;
  if (!request.writes || !alone) transfer(false, grain, start, kGrain);
  if (request.writes) {
    request.take(grain + (begin - start), begin, end - begin);
    transfer(true, grain, start, kGrain);
  } else {
    std::memcpy(request.at(begin), grain + (begin - start), static_cast<size_t>(end - begin));
  }
}

void DiskFile::carry_copied(const Request& request, int64_t begin, int64_t end) const {
  alignas(kGrain) std::byte bounce[kBounce];
  for (int64_t at = begin; at < end; at += kBounce) {
    const int64_t n = std::min(kBounce, end - at);
    if (request.writes) {
      request.take(bounce, at, n);
      transfer(true, bounce, at, n);
    } else {
      transfer(false, bounce, at, n);
      std::memcpy(request.at(at), bounce, static_cast<size_t>(n));
    }
  }
}

// Until all is there: the system may do a part. Direct I/O goes on at a whole grain.
void DiskFile::transfer(bool writes, std::byte* memory, int64_t offset, int64_t bytes) const {
  for (int64_t done = 0; done < bytes;) {
    const auto left = static_cast<size_t>(bytes - done);
    const ssize_t n = writes ? calls_.write(fd_, memory + done, left, offset + done)
                             : calls_.read(fd_, memory + done, left, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(writes, offset + done, bytes - done, std::strerror(errno), errno);
    const int64_t moved = direct_ && done + n < bytes ? grains_in(n) : n;
    if (moved == 0) fail(writes, offset + done, bytes - done, "nothing was transferred", 0);
    done += moved;
  }
}

void DiskFile::fail(bool writes, int64_t offset, int64_t bytes, const std::string& why,
                    int error) const {
  throw device_error("the offload file in {}: {} {} bytes at byte {}: {}", directory_,
                     writes ? "writing" : "reading", format_exact(bytes), format_exact(offset), why)
      .hint(error == ENOSPC || error == EDQUOT
                ? "the disk is full, although the file was allocated: free some space, or give "
                  "--offload-dir on another disk"
                : "look at the disk, or give --offload-dir on another one");
}

int64_t free_disk_bytes(const std::string& directory) {
  struct statvfs system {};
  if (statvfs(directory.c_str(), &system) != 0) {
    throw bad_input("--offload-dir {}: {}", directory, std::strerror(errno))
        .hint("give a directory on a local disk that you may write");
  }
  return static_cast<int64_t>(system.f_bavail * system.f_frsize);
}

}  // namespace snug
