#include "hal/disk_ring.h"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace snug {

// Two rings that the kernel shares with us: what it is asked for, and what it has done.
struct DiskRing::Mapped {
  int fd = -1;
  std::byte* rings = nullptr;
  size_t ring_bytes = 0;
  io_uring_sqe* entries = nullptr;
  size_t entry_bytes = 0;
  io_uring_params params{};

  ~Mapped() {
    if (entries != nullptr) munmap(entries, entry_bytes);
    if (rings != nullptr) munmap(rings, ring_bytes);
    if (fd >= 0) close(fd);
  }

  static std::unique_ptr<Mapped> make(unsigned depth) {
    auto out = std::make_unique<Mapped>();
    out->fd = static_cast<int>(syscall(__NR_io_uring_setup, depth, &out->params));
    // One mapping for both rings since Linux 5.4; plain reads and writes came with the other in 5.6.
    constexpr unsigned kNeeded = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_RW_CUR_POS;
    if (out->fd < 0 || (out->params.features & kNeeded) != kNeeded) return nullptr;
    const io_uring_params& p = out->params;
    out->ring_bytes = std::max(p.sq_off.array + p.sq_entries * sizeof(uint32_t),
                               p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe));
    out->entry_bytes = p.sq_entries * sizeof(io_uring_sqe);
    void* rings = out->map(out->ring_bytes, IORING_OFF_SQ_RING);
    if (rings == MAP_FAILED) return nullptr;
    out->rings = static_cast<std::byte*>(rings);
    void* entries = out->map(out->entry_bytes, IORING_OFF_SQES);
    if (entries == MAP_FAILED) return nullptr;
    out->entries = static_cast<io_uring_sqe*>(entries);
    return out;
  }

  void* map(size_t bytes, off_t what) const {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
  }
  uint32_t& word(uint32_t offset) const { return *reinterpret_cast<uint32_t*>(rings + offset); }
  void enter(unsigned submit, unsigned wait_for) const {
    const unsigned flags = wait_for > 0 ? IORING_ENTER_GETEVENTS : 0;
    while (syscall(__NR_io_uring_enter, fd, submit, wait_for, flags, nullptr, 0) < 0) {
      if (errno == EINTR && submit == 0) return;  // the caller checks again
      if (errno != EINTR && errno != EAGAIN && errno != EBUSY)
        throw device_error("io_uring: {}", std::strerror(errno));
    }
  }
};

DiskRing::DiskRing(std::unique_ptr<Mapped> mapped) : mapped_(std::move(mapped)) {}
DiskRing::~DiskRing() = default;

std::unique_ptr<DiskRing> DiskRing::open(unsigned depth) {
  auto mapped = Mapped::make(depth);
  return mapped ? std::unique_ptr<DiskRing>(new DiskRing(std::move(mapped))) : nullptr;
}

void DiskRing::push(const Transfer& t) {
  const auto& at = mapped_->params.sq_off;
  const uint32_t tail = mapped_->word(at.tail);
  const uint32_t slot = tail & mapped_->word(at.ring_mask);
  io_uring_sqe entry{};
  entry.opcode = t.writes ? IORING_OP_WRITE : IORING_OP_READ;
  entry.fd = t.fd;
  entry.off = static_cast<uint64_t>(t.offset);
  entry.addr = reinterpret_cast<uint64_t>(t.memory);
  entry.len = static_cast<uint32_t>(t.bytes);
  entry.user_data = t.tag;
  mapped_->entries[slot] = entry;
  mapped_->word(at.array + slot * static_cast<uint32_t>(sizeof(uint32_t))) = slot;
  std::atomic_ref(mapped_->word(at.tail)).store(tail + 1, std::memory_order_release);
  mapped_->enter(/*submit=*/1, /*wait_for=*/0);
}

DiskRing::Done DiskRing::wait() {
  const auto& at = mapped_->params.cq_off;
  const uint32_t head = mapped_->word(at.head);
  while (std::atomic_ref(mapped_->word(at.tail)).load(std::memory_order_acquire) == head)
    mapped_->enter(/*submit=*/0, /*wait_for=*/1);
  const auto* done = reinterpret_cast<const io_uring_cqe*>(mapped_->rings + at.cqes) +
                     (head & mapped_->word(at.ring_mask));
  const Done out{done->user_data, done->res};
  std::atomic_ref(mapped_->word(at.head)).store(head + 1, std::memory_order_release);
  return out;
}

}  // namespace snug
