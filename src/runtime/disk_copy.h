// An op's copy from or to disk: a whole read or write of the offload file, from or into memory that
// the host addresses.
#pragma once

#include <optional>
#include <span>

#include "ir/program.h"
#include "runtime/storage.h"

namespace snug {

struct DiskCopy {
  DiskFile* file = nullptr;
  bool writes = false;
  int64_t offset = 0;
  std::span<std::byte> memory;
  bool rest_is_free = false;  // as DiskFile::write says it

  void run() const;
};

// None for ops that touch nothing on disk.
std::optional<DiskCopy> disk_copy_of(const Op& op, const Storage& storage);

}  // namespace snug
