#include "runtime/value_stream.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace snug {

std::optional<int64_t> RingRoom::take(int64_t bytes) {
  const int64_t size = round_up(bytes, kGrain);
  Range range{0, size};
  if (!taken_.empty()) {
    const int64_t oldest = taken_.front().begin, newest = taken_.back().end;
    const bool wrapped = taken_.back().begin < oldest;
    if (wrapped || newest + size <= bytes_) range = {newest, newest + size};
    // In front of the oldest, where the end has no room.
    if ((wrapped || range.begin == 0) && range.end > oldest) return std::nullopt;
  }
  if (range.end > bytes_) return std::nullopt;
  taken_.push_back(range);
  return range.begin;
}

void RingRoom::give_back_oldest() { taken_.pop_front(); }

int64_t ValueStream::staging_for(const Module& module, std::span<const ValueId> values) {
  int64_t bytes = 0;
  for (const ValueId id : values) {
    const int64_t all = module[id].type.bytes(), whole = all / ValuePieces::kPieceBytes;
    bytes += whole * ValuePieces::kPieceBytes +
             round_up(all - whole * ValuePieces::kPieceBytes, RingRoom::kGrain);
  }
  return bytes;
}

ValueStream::ValueStream(Executor& executor, std::vector<ValueId> values,
                         std::span<std::byte> staging)
    : executor_(executor),
      values_(std::move(values)),
      staging_(staging),
      room_(0),
      most_(0),
      lane_(executor.extra_lane()),
      ended_(executor.device().make_event()),
      begin_(executor.device().make_arrival()),
      states_(values_.size()) {
  const bool staged = std::ranges::any_of(values_, [&](ValueId id) { return is_staged(id); });
  if (staged && staging_.empty()) {
    own_ = executor.device().allocate_host(kOwnStaging);
    staging_ = {own_->data(), static_cast<size_t>(kOwnStaging)};
  }
  if (std::ranges::any_of(values_, [&](ValueId id) { return is_on_disk(id); }))
    from_disk_ = executor.device().allocate_host(kOwnStaging);
  room_ = RingRoom(static_cast<int64_t>(staging_.size()));
  // A quarter at once, so that one is on its way while another is looked at.
  most_ = std::min(ValuePieces::kPieceBytes,
                   round_up(static_cast<int64_t>(staging_.size()) / 4, RingRoom::kGrain));
  for (size_t i = 0; i < values_.size(); ++i) index_[values_[i].index] = i;
  ended_->record(0);
  ended_->wait(lane_);
  begin_->record(lane_);
  executor_.before_write = [this](ValueId id) { wait_until_free(id); };
}

ValueStream::~ValueStream() {
  executor_.before_write = nullptr;
  try {
    begin_->wait();
    for (Flight& flight : flights_) flight.arrived->wait();  // they write to staging
  } catch (const Error&) {  // a device that failed writes nothing more
    flights_.clear();
  }
}

bool ValueStream::is_on_disk(ValueId id) const {
  return executor_.module()[id].space == Space::disk;
}
bool ValueStream::is_staged(ValueId id) const {
  return !executor_.host_addresses(id) && !is_on_disk(id) &&
         executor_.module()[id].type.bytes() > 0;
}

// Copies from the device, as far as staging has room.
void ValueStream::send_ahead() {
  while (next_ < values_.size()) {
    const ValueId id = values_[next_];
    if (!is_staged(id)) {
      ++next_;
      continue;
    }
    const int64_t bytes = std::min(most_, bytes_of(next_) - next_offset_);
    const std::optional<int64_t> place = room_.take(bytes);
    if (!place) return;
    const std::span<std::byte> to =
        staging_.subspan(static_cast<size_t>(*place), static_cast<size_t>(bytes));
    Flight flight{to, executor_.device().make_arrival()};
    executor_.read_on_lane(id, next_offset_, to, lane_);
    flight.arrived->record(lane_);
    next_offset_ += bytes;
    if (next_offset_ == bytes_of(next_)) {
      set_free(next_, flight.arrived);
      ++next_;
      next_offset_ = 0;
    }
    flights_.push_back(std::move(flight));
  }
}

void ValueStream::look(ValueId id, const LookAtPiece& visit) {
  if (!std::exchange(began_, true)) {
    begin_->wait();
    executor_.throw_what_failed();
  }
  send_ahead();
  const size_t value = looked_++;
  if (value >= values_.size() || values_[value] != id)
    throw internal_error("'{}' is read out of turn", executor_.module()[id].name);
  const int64_t bytes = bytes_of(value);
  if (is_staged(id)) return look_at_staged(value, visit);
  if (is_on_disk(id)) {
    for (int64_t at = 0; at < bytes; at += kOwnStaging) {
      const std::span<std::byte> block(from_disk_->data(),
                                       static_cast<size_t>(std::min(kOwnStaging, bytes - at)));
      executor_.read_on_lane(id, at, block, lane_);
      visit(block);
    }
  } else {
    const std::span<const std::byte> all = executor_.host_bytes(id);
    for (int64_t at = 0; at < bytes; at += ValuePieces::kPieceBytes)
      visit(all.subspan(static_cast<size_t>(at),
                        static_cast<size_t>(std::min(ValuePieces::kPieceBytes, bytes - at))));
  }
  set_free(value);
}

void ValueStream::look_at_staged(size_t value, const LookAtPiece& visit) {
  for (int64_t at = 0; at < bytes_of(value);) {
    Flight& next = flights_.front();
    next.arrived->wait();
    visit(next.bytes);
    at += static_cast<int64_t>(next.bytes.size());
    flights_.pop_front();
    room_.give_back_oldest();
    send_ahead();
  }
}

void ValueStream::set_free(size_t value, std::shared_ptr<Arrival> last) {
  const std::lock_guard lock(mutex_);
  states_[value] = {true, std::move(last)};
  changed_.notify_all();
}

void ValueStream::give_up() {
  for (size_t i = 0; i < values_.size(); ++i) set_free(i);
}

void ValueStream::wait_until_free(ValueId id) {
  const auto found = index_.find(id.index);
  if (found == index_.end()) return;
  std::shared_ptr<Arrival> last;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return states_[found->second].free; });
    last = states_[found->second].last;
  }
  if (last) last->wait();
}

}  // namespace snug
