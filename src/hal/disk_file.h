// The arena of values that live on disk: one preallocated file without a name, read and written past
// the page cache where the file system takes direct I/O.
//
//   DiskFile file("/nvme", plan_bytes);      // throws before anything runs: no space, no right to write
//   file.write(4096, bytes);                 // returns when all of it is written
//   file.read(4096, bytes);
//
// The file has no name from the moment it is open, so no file is left, however the process
// ends. Large transfers are cut into blocks, which the kernel carries side by side (io_uring), or
// threads of its own where it does not. May be called from several threads; two writes at once must
// not touch the same kGrain bytes.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "hal/disk_ring.h"

namespace snug {

// What was moved one way, and how long callers waited for it.
struct DiskTraffic {
  int64_t transfers = 0;
  int64_t bytes = 0;
  double seconds = 0;
  double bytes_per_s() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};

class DiskFile {
 public:
  static constexpr int64_t kGrain = 4096;  // direct I/O moves whole ones, from and to whole ones
  static constexpr int64_t kBlock = int64_t{1} << 20;
  static constexpr int kDepth = 32;  // blocks under way at once

  // The system's own; tests put others in their place, and turn io_uring off so that they are used.
  struct Calls {
    ssize_t (*read)(int, void*, size_t, off_t);
    ssize_t (*write)(int, const void*, size_t, off_t);
    bool ring = false;
  };
  static Calls system_calls();

  // `bytes` that are there from now on. Throws does_not_fit where the disk has not so many, and
  // bad_input where the directory is missing or not to be written.
  DiskFile(std::string directory, int64_t bytes, Calls calls = system_calls());
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  // All of it, or a device error that names directory, place and reason. Memory at a multiple of
  // kGrain from a multiple of kGrain moves without a copy.
  void read(int64_t offset, std::span<std::byte> to);
  // rest_is_free: from its end to the next multiple of kGrain the file holds no value's bytes.
  void write(int64_t offset, std::span<const std::byte> from, bool rest_is_free = false);
  void fill(int64_t offset, int64_t bytes, uint8_t value);

  int64_t bytes() const { return bytes_; }
  int64_t high_water_mark() const { return high_water_; }  // the highest byte written, plus one
  bool direct() const { return direct_; }
  bool by_ring() const { return by_ring_; }  // io_uring, not threads
  DiskTraffic reads() const { return reads_.now(); }
  DiskTraffic writes() const { return writes_.now(); }
  // Warnings about the directory: it is no disk, or direct I/O is refused.
  std::vector<std::string> notes() const;

 private:
  struct Request;
  class Carriers;
  struct Counted {
    std::atomic<int64_t> transfers = 0, bytes = 0, nanoseconds = 0;
    DiskTraffic now() const { return {transfers, bytes, static_cast<double>(nanoseconds) * 1e-9}; }
  };

  void open_file();
  void allocate();
  void try_direct();
  void carry(Request& request, Counted& counted);
  // How whole grains are moved, or all bytes where I/O is not direct.
  using Move = std::function<void(std::byte* memory, int64_t offset, int64_t bytes)>;
  void carry_by_ring(const Request& request, DiskRing& ring) const;
  bool suits_ring(const Request& request) const;
  std::unique_ptr<DiskRing> take_ring();
  void carry_block(const Request& request, int64_t begin, int64_t end, const Move& move) const;
  void carry_edge(const Request& request, int64_t begin, int64_t end) const;
  void carry_copied(const Request& request, int64_t begin, int64_t end) const;
  void transfer(bool writes, std::byte* memory, int64_t offset, int64_t bytes) const;
  [[noreturn]] void fail(bool writes, int64_t offset, int64_t bytes, const std::string& why,
                         int error) const;

  std::string directory_;
  int64_t bytes_;
  Calls calls_;
  int fd_ = -1;
  bool direct_ = false;
  bool in_memory_ = false;
  std::atomic<int64_t> high_water_ = 0;
  Counted reads_, writes_;
  std::unique_ptr<Carriers> carriers_;
  bool by_ring_ = false;
  std::mutex rings_mutex_;
  std::vector<std::unique_ptr<DiskRing>> rings_;  // idle; as many as have called
};

// What a file in this directory could take. Throws bad_input where there is no such directory.
int64_t free_disk_bytes(const std::string& directory);

}  // namespace snug
