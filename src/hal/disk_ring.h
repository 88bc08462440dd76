// Reads and writes of files that the kernel carries side by side (io_uring), by system calls alone.
// One thread at a time.
//
//   if (auto ring = DiskRing::open(32)) {
//     ring->push({.fd = fd, .memory = here, .bytes = n, .tag = 7});
//     ring->wait();   // {7, bytes read}
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace snug {

class DiskRing {
 public:
  struct Transfer {
    bool writes = false;
    int fd = -1;
    std::byte* memory = nullptr;
    int64_t offset = 0, bytes = 0;
    uint64_t tag = 0;
  };
  struct Done {
    uint64_t tag = 0;
    int64_t result = 0;  // bytes, or an error's number below zero
  };

  // nullptr where the system has none, or forbids it, as containers do.
  static std::unique_ptr<DiskRing> open(unsigned depth);
  ~DiskRing();
  DiskRing(const DiskRing&) = delete;
  DiskRing& operator=(const DiskRing&) = delete;

  // At most `depth` may be under way. Its memory stays until it was waited for.
  void push(const Transfer& transfer);
  Done wait();  // for any of them

 private:
  struct Mapped;
  explicit DiskRing(std::unique_ptr<Mapped> mapped);
  std::unique_ptr<Mapped> mapped_;
};

}  // namespace snug
