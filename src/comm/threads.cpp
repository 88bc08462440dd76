#include "comm/threads.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace snug {
namespace {

enum Call : int { kGather = 1, kTranspose, kBroadcast, kBarrier };

void copy_unless_there(std::byte* to, const std::byte* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

class ThreadGroup::End final : public Communicator {
 public:
  End(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}

  std::string_view engine() const override { return "threads"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(group_.offers_.size()); }

  void all_gather(std::span<const std::byte> mine, std::byte* all, void*) override {
    const auto bytes = static_cast<int64_t>(mine.size());
    group_.meet(rank_, {mine.data(), bytes, kGather}, [&](std::span<const Offer> offers) {
      for (size_t r = 0; r < offers.size(); ++r)
        copy_unless_there(all + static_cast<int64_t>(r) * bytes, offers[r].from, bytes);
    });
  }

  void all_to_all(const std::byte* from, std::byte* to, int64_t block, void*) override {
    group_.meet(rank_, {from, block, kTranspose}, [&](std::span<const Offer> offers) {
      for (size_t r = 0; r < offers.size(); ++r)
        copy_unless_there(to + static_cast<int64_t>(r) * block, offers[r].from + rank_ * block,
                          block);
    });
  }

  void broadcast(std::span<std::byte> bytes, int root, void*) override {
    const auto size = static_cast<int64_t>(bytes.size());
    group_.meet(rank_, {bytes.data(), size, kBroadcast}, [&](std::span<const Offer> offers) {
      copy_unless_there(bytes.data(), offers[static_cast<size_t>(root)].from, size);
    });
  }

  void barrier() override {
    group_.meet(rank_, {nullptr, 0, kBarrier}, [](std::span<const Offer>) {});
  }

  // Shown until it is taken. In a group, all are shown before one is taken or waited for.
  void send(std::span<const std::byte> bytes, int to, void*) override {
    std::unique_lock lock(group_.mutex_);
    Messages& messages = group_.messages_[index(rank_, to)];
    messages.shown.push_back({bytes.data(), static_cast<int64_t>(bytes.size()), kGather});
    ++messages.sent;
    group_.changed_.notify_all();
    if (grouped_) {
      sent_to_.push_back(to);
    } else {
      wait_until_taken(lock, to);
    }
  }

  void receive(std::span<std::byte> bytes, int from, void*) override {
    if (grouped_) {
      awaited_.push_back({bytes, from});
    } else {
      take(bytes, from);
    }
  }

  void begin_group() override { grouped_ = true; }
  void end_group() override {
    grouped_ = false;
    for (const auto& [bytes, from] : std::exchange(awaited_, {})) take(bytes, from);
    std::unique_lock lock(group_.mutex_);
    for (const int to : std::exchange(sent_to_, {})) wait_until_taken(lock, to);
  }

  void abort(std::string_view why) override { group_.abort(why); }

 private:
  size_t index(int from, int to) const { return static_cast<size_t>(from * ranks() + to); }
  void take(std::span<std::byte> bytes, int from) {
    std::unique_lock lock(group_.mutex_);
    Messages& messages = group_.messages_[index(from, rank_)];
    group_.changed_.wait(lock, [&] { return !messages.shown.empty() || !group_.failure_.empty(); });
    throw_failure();
    const Offer& message = messages.shown.front();
    if (message.bytes != static_cast<int64_t>(bytes.size()))
      throw internal_error("rank {} sends {} bytes, rank {} takes {}", from, message.bytes, rank_,
                           bytes.size());
    copy_unless_there(bytes.data(), message.from, message.bytes);
    messages.shown.pop_front();
    ++messages.taken;
    group_.changed_.notify_all();
  }
  void wait_until_taken(std::unique_lock<std::mutex>& lock, int to) {
    Messages& messages = group_.messages_[index(rank_, to)];
    group_.changed_.wait(
        lock, [&] { return messages.taken == messages.sent || !group_.failure_.empty(); });
    throw_failure();
  }
  void throw_failure() const {
    if (!group_.failure_.empty()) throw device_error("{}", group_.failure_);
  }

  ThreadGroup& group_;
  int rank_;
  bool grouped_ = false;
  std::vector<int> sent_to_;  // in this group of calls
  std::vector<std::pair<std::span<std::byte>, int>>
      awaited_;  // and what is to be received from which rank
};

ThreadGroup::ThreadGroup(int ranks)
    : offers_(static_cast<size_t>(ranks)),
      messages_(static_cast<size_t>(ranks) * static_cast<size_t>(ranks)) {
  for (int r = 0; r < ranks; ++r) ends_.push_back(std::make_unique<End>(*this, r));
}

ThreadGroup::~ThreadGroup() = default;

Communicator& ThreadGroup::end(int rank) { return *ends_.at(static_cast<size_t>(rank)); }

template <typename Take>
void ThreadGroup::meet(int rank, const Offer& mine, const Take& take) {
  std::unique_lock lock(mutex_);
  offers_[static_cast<size_t>(rank)] = mine;
  wait_for_all(lock);
  const auto differs = std::ranges::find_if(offers_, [&](const Offer& other) {
    return other.call != mine.call || other.bytes != mine.bytes;
  });
  if (differs != offers_.end()) {
    throw internal_error("rank {} is in call {} of {} bytes, rank {} in call {} of {}", rank,
                         mine.call, mine.bytes, differs - offers_.begin(), differs->call,
                         differs->bytes);
  }
  lock.unlock();
  take(std::span<const Offer>(offers_));
  lock.lock();
  wait_for_all(lock);
}

void ThreadGroup::wait_for_all(std::unique_lock<std::mutex>& lock) {
  const int64_t round = round_;
  if (++waiting_ == static_cast<int>(offers_.size())) {
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return round_ != round || !failure_.empty(); });
  }
  if (!failure_.empty()) throw device_error("{}", failure_);
}

void ThreadGroup::abort(std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
  changed_.notify_all();
}

}  // namespace snug
