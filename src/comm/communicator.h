// One rank's end of a group of ranks that move bytes to each other. Engines: threads of one process
// (comm/threads.h), sockets between processes (comm/sockets.h), MPI (comm/mpi.h) and NCCL
// (comm/nccl.h).
//
//   group->all_gather(my_block, whole, lane_stream);   // every rank calls it, all with equal blocks
//
// All ranks of a group make the same calls in the same order, with the same sizes. Calls of two
// groups run side by side; one group is used by one thread at a time. Blocks follow one another,
// in the order of the ranks. A call that fails throws a device error that names what it waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ir/type.h"

namespace snug {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual std::string_view engine() const = 0;  // "threads"
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // `stream`: where the engine enqueues, the lane's (`enqueues`); the others have done it when they
  // return, and are given nullptr. What is enqueued may be recorded and launched again.
  virtual bool enqueues() const { return false; }

  // Every rank's block to every rank. `mine` may be at its place in `all`.
  virtual void all_gather(std::span<const std::byte> mine, std::byte* all, void* stream) = 0;
  // Block r of `from` to rank r, whose block of that is the one of this rank: a transposition. `from`
  // and `to` are apart, `block` bytes for each rank.
  virtual void all_to_all(const std::byte* from, std::byte* to, int64_t block, void* stream) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root, void* stream) = 0;
  // Between two ranks, in the order in which both call.
  virtual void send(std::span<const std::byte> bytes, int to, void* stream) = 0;
  virtual void receive(std::span<std::byte> bytes, int from, void* stream) = 0;
  // Before messages to and from these ranks: an engine that connects two ranks at their first message
  // does so now, while no lane waits for another rank. Both ends call it.
  virtual void connect(std::span<const int> /*to*/, std::span<const int> /*from*/) {}
  // Waits until all ranks are here.
  virtual void barrier() = 0;

  // Sums over all ranks: where the engine enqueues, by its library, in an order of its own and rounded
  // on the way; else in the order of the ranks, in fp32, rounded once. `elements`: of what a rank
  // receives, `mine` or `to`.
  virtual void reduce_scatter(const std::byte* all, std::byte* mine, Dtype dtype, int64_t elements,
                              void* stream);
  virtual void all_reduce(const std::byte* from, std::byte* to, Dtype dtype, int64_t elements,
                          void* stream);

  // Calls between the two may become one: they begin when the last of them is made.
  virtual void begin_group() {}
  virtual void end_group() {}

  // Makes every rank's present and later call throw `why`: for a rank that fails.
  virtual void abort(std::string_view why) = 0;
};

}  // namespace snug
