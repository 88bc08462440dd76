#include "comm/communicator.h"

#include <vector>

#include "base/error.h"
#include "ir/visit_dtype.h"

namespace snug {
namespace {

void add_in_order(std::span<const std::byte> blocks, std::byte* to, Dtype dtype, int64_t elements) {
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* from = reinterpret_cast<const T*>(blocks.data());
    auto* sums = reinterpret_cast<T*>(to);
    const int64_t all = std::ssize(blocks) / size_of(dtype);
    for (int64_t i = 0; i < elements; ++i) {
      auto sum = static_cast<float>(from[i]);
      for (int64_t at = i + elements; at < all; at += elements) sum += static_cast<float>(from[at]);
      sums[i] = static_cast<T>(sum);
    }
  });
}

}  // namespace

void Communicator::reduce_scatter(const std::byte* all, std::byte* mine, Dtype dtype,
                                  int64_t elements, void* stream) {
  if (enqueues()) throw internal_error("{} makes no sums", engine());
  const int64_t block = elements * size_of(dtype);
  std::vector<std::byte> blocks(static_cast<size_t>(ranks() * block));
  all_to_all(all, blocks.data(), block, stream);
  add_in_order(blocks, mine, dtype, elements);
}

void Communicator::all_reduce(const std::byte* from, std::byte* to, Dtype dtype, int64_t elements,
                              void* stream) {
  if (enqueues()) throw internal_error("{} makes no sums", engine());
  const int64_t block = elements * size_of(dtype);
  std::vector<std::byte> blocks(static_cast<size_t>(ranks() * block));
  all_gather({from, static_cast<size_t>(block)}, blocks.data(), stream);
  add_in_order(blocks, to, dtype, elements);
}

}  // namespace snug
