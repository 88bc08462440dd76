// A device with streams and no GPU, for tests: its lanes are queues, which are emptied one item at a
// time, from a random one of those that may go on. It refuses what a CUDA stream refuses while it is
// recorded.
//
//   QueuedDevice device(seed);
//   Executor executor(module, device);   // of ops whose kernels enqueue (toy_programs.h)
//   executor.run("p");                   // nothing has happened yet
//   device.synchronise();
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "hal/cpu/cpu_device.h"
#include "runtime/testing/toy_programs.h"

namespace snug::testing_ops {

class QueuedDevice final : public Device {
 public:
  explicit QueuedDevice(uint64_t seed) : random_(seed) { lane(0); }

  // What was enqueued, whether or not it was recorded.
  int events = 0, copies = 0, calls = 0, delays = 0;
  std::vector<int64_t> host_asked;
  bool forgets_to_wait = false;  // no lane waits for an event

  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string_view name() const override { return "queued"; }
  std::unique_ptr<Memory> allocate(int64_t bytes) override { return cpu_->allocate(bytes); }
  std::unique_ptr<Memory> allocate_host(int64_t bytes) override {
    host_asked.push_back(bytes);
    return cpu_->allocate(bytes);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    synchronise();
    cpu_->upload(to, from);
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    synchronise();
    cpu_->download(to, from);
  }
  std::unique_ptr<Reading> read_later(std::span<const Piece> pieces) override {
    synchronise();
    return cpu_->read_later(pieces);
  }
  void fill(std::span<std::byte> bytes, uint8_t value) override {
    lanes_[0]->push([=, this] { cpu_->fill(bytes, value); });
  }

  void* stream() const override { return static_cast<Queue*>(lanes_[0].get()); }
  void synchronise() override {
    for (;;) {
      std::vector<Lane*> ready;
      bool empty = true;
      for (const auto& each : lanes_) {
        empty = empty && each->items.empty();
        if (!each->items.empty() && may_start(each->items.front())) ready.push_back(each.get());
      }
      if (empty) return;
      if (ready.empty()) throw internal_error("every lane waits for another");
      random_ = mix(random_);
      Lane& chosen = *ready[random_ % ready.size()];
      const Item item = std::move(chosen.items.front());
      chosen.items.pop_front();
      if (item.kind == Item::works) item.run();
      ++done_;
      if (item.kind == Item::records) passed_.insert(item.event);
    }
  }
  int64_t done() const { return done_; }  // pieces of work so far
  // Has all that was enqueued been done?
  bool idle() const {
    return std::ranges::all_of(lanes_, [](const auto& each) { return each->items.empty(); });
  }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override {
    capture_ = std::make_unique<Capture>();
    capture_->before[0] = {};
    enqueue();
    const std::unique_ptr<Capture> done = std::move(capture_);
    if (done->before[0].size() != done->items.size())
      throw internal_error("a lane was not joined before the recording ended");
    return std::make_unique<Recorded>(*this, done->items);
  }

  void* lane_stream(int32_t index) override { return static_cast<Queue*>(&lane(index)); }
  std::unique_ptr<LaneEvent> make_event() override { return std::make_unique<Event>(*this); }
  std::unique_ptr<Arrival> make_arrival() override { return std::make_unique<Arrived>(*this); }
  std::unique_ptr<Stamp> make_stamp() override { return std::make_unique<Counted>(*this); }
  void copy(std::span<std::byte> to, const std::byte* from, int32_t index) override {
    ++copies;
    lane(index).push([=, this] { cpu_->upload(to.data(), {from, to.size()}); });
  }
  void call(const std::function<void()>& work, int32_t index) override {
    ++calls;
    lane(index).push([&work] { work(); });
  }
  void delay(int32_t, double) override { ++delays; }

 private:
  struct Item {
    enum Kind : uint8_t { works, records, waits } kind = works;
    std::function<void()> run = {};
    int64_t event = 0;  // each record's own number
  };
  struct Lane final : Queue {
    Lane(QueuedDevice& d, int32_t i) : device(d), index(i) {}
    void push(std::function<void()> run) override {
      device.add(index, {Item::works, std::move(run)});
    }
    QueuedDevice& device;
    int32_t index;
    std::deque<Item> items;
  };
  struct Event final : LaneEvent {
    explicit Event(QueuedDevice& d) : device(d) {}
    void record(int32_t index) override {
      ++device.events;
      number = ++device.numbers_;
      device.add(index, {Item::records, {}, number});
    }
    void wait(int32_t index) override {
      if (number == 0) throw internal_error("a lane waits for an event that was never recorded");
      device.add(index, {Item::waits, {}, number});
    }
    QueuedDevice& device;
    int64_t number = 0;
  };
  struct Arrived final : Arrival {
    explicit Arrived(QueuedDevice& d) : device(d) {}
    void record(int32_t) override {}
    void wait() override { device.synchronise(); }
    QueuedDevice& device;
  };
  // Its clock counts what was done on all lanes.
  struct Counted final : Stamp {
    explicit Counted(QueuedDevice& d) : device(d) {}
    void record(int32_t index) override {
      device.add(index, {Item::works, [this] { at = device.done_; }});
    }
    double seconds_since(const Stamp& earlier) const override {
      return static_cast<double>(at - dynamic_cast<const Counted&>(earlier).at);
    }
    QueuedDevice& device;
    int64_t at = 0;
  };
  using Items = std::vector<std::pair<int32_t, Item>>;
  struct Recorded final : Recording {
    Recorded(QueuedDevice& d, Items i) : device(d), items(std::move(i)) {}
    void launch() override {
      std::map<int64_t, int64_t> fresh;  // every launch has events of its own
      for (auto [index, item] : items) {
        if (item.kind == Item::records) fresh[item.event] = ++device.numbers_;
        if (item.kind != Item::works) item.event = fresh.at(item.event);
        device.lane(index).items.push_back(std::move(item));
      }
    }
    QueuedDevice& device;
    Items items;
  };
  struct Capture {
    Items items;
    std::map<int32_t, std::set<size_t>>
        before;                              // by lane that takes part: what its next one follows
    std::map<int64_t, std::set<size_t>> at;  // by event
  };

  Lane& lane(int32_t index) {
    while (std::cmp_less_equal(lanes_.size(), index))
      lanes_.push_back(std::make_unique<Lane>(*this, static_cast<int32_t>(lanes_.size())));
    return *lanes_[static_cast<size_t>(index)];
  }
  bool may_start(const Item& item) const {
    return item.kind != Item::waits || forgets_to_wait || passed_.contains(item.event);
  }
  void add(int32_t index, Item item) {
    if (capture_) return add_captured(index, std::move(item));
    if (item.kind == Item::waits && captured_.contains(item.event))
      throw internal_error("a lane waits for an event that was only recorded in a graph");
    lane(index).items.push_back(std::move(item));
  }
  void add_captured(int32_t index, Item item) {
    if (item.kind == Item::waits) {
      if (!capture_->at.contains(item.event))
        throw internal_error("a recording waits for an event from outside");
      capture_->before[index].merge(std::set(capture_->at[item.event]));
    }
    if (!capture_->before.contains(index))
      throw internal_error("lane {} does not take part in the recording", index);
    std::set<size_t>& before = capture_->before[index];
    before.insert(capture_->items.size());
    if (item.kind == Item::records) {
      capture_->at[item.event] = before;
      captured_.insert(item.event);
    }
    capture_->items.emplace_back(index, std::move(item));
  }

  std::unique_ptr<Device> cpu_ = cpu_device();
  uint64_t random_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  int64_t numbers_ = 0, done_ = 0;
  std::set<int64_t> passed_, captured_;
  std::unique_ptr<Capture> capture_;
};

}  // namespace snug::testing_ops
