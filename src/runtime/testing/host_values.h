// Values where the host can work on them, one at a time: the arena itself where the host addresses
// it, otherwise a copy, which is written back when the next value is asked for or this ends.
//
//   HostValues host(executor);
//   std::ranges::fill(host.make<float>(weight), 1.0F);   // what was there is not looked at
//   for (float x : host.look<float>(bias)) ...
#pragma once

#include <exception>
#include <span>
#include <vector>

#include "runtime/executor.h"

namespace snug {

class HostValues {
 public:
  explicit HostValues(Executor& executor) : executor_(executor) {}
  ~HostValues() noexcept(false) {
    if (std::uncaught_exceptions() == 0) flush();
  }
  HostValues(const HostValues&) = delete;
  HostValues& operator=(const HostValues&) = delete;

  // To read; to change a part; to write all of.
  std::span<const std::byte> look(ValueId id) { return open(id, {.fetch = true}); }
  std::span<std::byte> edit(ValueId id) { return open(id, {.fetch = true, .send = true}); }
  std::span<std::byte> make(ValueId id) { return open(id, {.send = true}); }
  template <typename T>
  std::span<const T> look(ValueId id) {
    const auto bytes = look(id);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<T> make(ValueId id) {
    const auto bytes = make(id);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  void flush() {
    if (sends_) executor_.write(open_, copy_);
    sends_ = false;
  }

 private:
  struct Use {
    bool fetch = false, send = false;
  };
  std::span<std::byte> open(ValueId id, Use use) {
    if (executor_.host_addresses(id)) return executor_.bytes(id);
    if (id != open_) {
      flush();
      copy_.resize(static_cast<size_t>(executor_.module()[id].type.bytes()));
      if (use.fetch) executor_.read(id, copy_);
      open_ = id;
    }
    sends_ = sends_ || use.send;
    return copy_;
  }

  Executor& executor_;
  ValueId open_;
  std::vector<std::byte> copy_;
  bool sends_ = false;
};

}  // namespace snug
