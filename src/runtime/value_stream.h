// Values that go on from step to step, read as they are between two steps while the next one runs.
// An op that writes one of them waits until that value is read; everything else goes on.
//
//   ValueStream stream(executor, values, staging);        // between two steps, on their thread
//   std::thread reader([&] {
//     for (ValueId id : values) stream.look(id, [&](auto next) { file.write(next); });
//   });
//   executor.run_step(feed);                               // its update waits for what is not read
//   reader.join();
//
// What the host addresses is read where it is. What is on a device passes through staging, by copies
// on a lane of its own and as far ahead as staging allows: where staging holds all of it an update
// waits for these copies alone, and not for the reader.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/executor.h"
#include "runtime/value_pieces.h"

namespace snug {

// Room in a span, given and taken back in the same order.
class RingRoom {
 public:
  static constexpr int64_t kGrain = 256;
  explicit RingRoom(int64_t bytes) : bytes_(bytes) {}
  // The offset of so many free bytes; none: there is no room now.
  std::optional<int64_t> take(int64_t bytes);
  void give_back_oldest();

 private:
  struct Range {
    int64_t begin, end;
  };
  int64_t bytes_;
  std::deque<Range> taken_;
};

class ValueStream {
 public:
  // What a stream keeps of its own where it is given no staging, and for what is on disk.
  static constexpr int64_t kOwnStaging = ValuePieces::kPieceBytes / 2;
  // Room that is enough for all of these.
  static int64_t staging_for(const Module& module, std::span<const ValueId> values);

  // `values` are persistent ones, each once; `staging` is of the device's allocate_host and outlives
  // this, or empty. Between programs: takes Executor::before_write.
  ValueStream(Executor& executor, std::vector<ValueId> values, std::span<std::byte> staging);
  // Between programs, after the reader has ended.
  ~ValueStream();
  ValueStream(const ValueStream&) = delete;
  ValueStream& operator=(const ValueStream&) = delete;

  // All of a value's bytes, in the order in which the values were given; by one thread.
  void look(ValueId id, const LookAtPiece& visit);
  // No op waits any more: what is not read by now will not be.
  void give_up();

 private:
  struct State {
    bool free = false;              // nothing is left to read, or its copies are on their way:
    std::shared_ptr<Arrival> last;  // the end of them
  };
  struct Flight {
    std::span<std::byte> bytes;
    std::shared_ptr<Arrival> arrived;
  };

  void wait_until_free(ValueId id);
  void set_free(size_t value, std::shared_ptr<Arrival> last = nullptr);
  bool is_staged(ValueId id) const;
  bool is_on_disk(ValueId id) const;
  void look_at_staged(size_t value, const LookAtPiece& visit);
  void send_ahead();
  int64_t bytes_of(size_t value) const { return executor_.module()[values_[value]].type.bytes(); }

  Executor& executor_;
  std::vector<ValueId> values_;
  std::unordered_map<int32_t, size_t> index_;  // of a value, by its number
  std::unique_ptr<Memory> own_, from_disk_;    // where they are needed
  std::span<std::byte> staging_;
  RingRoom room_;
  int64_t most_;  // of a piece
  int32_t lane_ = 0;
  std::unique_ptr<LaneEvent> ended_;  // the step before
  std::unique_ptr<Arrival> begin_;    // so it has
  bool began_ = false;
  size_t looked_ = 0;  // values
  std::deque<Flight> flights_;
  // What is sent next: a value, and the first of its bytes.
  size_t next_ = 0;
  int64_t next_offset_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> states_;
};

}  // namespace snug
