#include "support/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace snug {

class RankWatch::End final : public Communicator {
 public:
  End(RankWatch& watch, Waiting& waiting, Communicator& end)
      : watch_(watch), waiting_(waiting), end_(end) {}

  std::string_view engine() const override { return end_.engine(); }
  int rank() const override { return end_.rank(); }
  int ranks() const override { return end_.ranks(); }

  void all_gather(std::span<const std::byte> mine, std::byte* all, void* stream) override {
    const InCall call(*this, "all_gather", mine.size());
    end_.all_gather(mine, all, stream);
  }
  void all_to_all(const std::byte* from, std::byte* to, int64_t block, void* stream) override {
    const InCall call(*this, "all_to_all", static_cast<size_t>(block));
    end_.all_to_all(from, to, block, stream);
  }
  void broadcast(std::span<std::byte> bytes, int root, void* stream) override {
    const InCall call(*this, "broadcast", bytes.size());
    end_.broadcast(bytes, root, stream);
  }
  void send(std::span<const std::byte> bytes, int to, void* stream) override {
    const InCall call(*this, "send", bytes.size());
    end_.send(bytes, to, stream);
  }
  void receive(std::span<std::byte> bytes, int from, void* stream) override {
    const InCall call(*this, "receive", bytes.size());
    end_.receive(bytes, from, stream);
  }
  void barrier() override {
    const InCall call(*this, "barrier", 0);
    end_.barrier();
  }
  void begin_group() override { end_.begin_group(); }
  void end_group() override {
    const InCall call(*this, "end_group", 0);
    end_.end_group();
  }
  void abort(std::string_view why) override { end_.abort(why); }

 private:
  class InCall {
   public:
    InCall(End& end, std::string_view call, size_t bytes) : end_(end) {
      const std::lock_guard lock(end.watch_.mutex_);
      ++end.watch_.events_;
      end.waiting_.call = fmt::format("{} of {} bytes, call {}", call, bytes, ++end.waiting_.calls);
    }
    ~InCall() {
      const std::lock_guard lock(end_.watch_.mutex_);
      ++end_.watch_.events_;
      end_.waiting_.call.clear();
    }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;

   private:
    End& end_;
  };

  RankWatch& watch_;
  Waiting& waiting_;
  Communicator& end_;
};

RankWatch::RankWatch(double seconds, std::function<void(const std::string&)> stop)
    : stop_(std::move(stop)), thread_([this, seconds] { watch(seconds); }) {}

RankWatch::~RankWatch() {
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
  }
  leaving_.notify_all();
  thread_.join();
}

Communicator& RankWatch::end(int rank, std::string_view lane, Communicator& end) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::make_unique<Waiting>(Waiting{rank, std::string(lane)}));
  ends_.push_back(std::make_unique<End>(*this, *waiting_.back(), end));
  return *ends_.back();
}

void RankWatch::watch(double seconds) {
  std::unique_lock lock(mutex_);
  for (int64_t seen = -1; !left_;) {
    if (seen == events_ && !who_waits().empty()) {
      const std::string why = fmt::format("no rank has gone on for {} s: {}", seconds, who_waits());
      lock.unlock();
      return stop_(why);
    }
    seen = events_;
    leaving_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return left_; });
  }
}

std::string RankWatch::who_waits() const {
  std::string out;
  for (const auto& w : waiting_) {
    if (w->call.empty()) continue;
    out +=
        fmt::format("{}rank {}, lane {}: {}", out.empty() ? "" : "; ", w->rank, w->lane, w->call);
  }
  return out;
}

}  // namespace snug
