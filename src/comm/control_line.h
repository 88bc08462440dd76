// One control connection of a job: frames in both directions, never waiting. What cannot be sent at
// once is kept and sent by the next flush().
#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include "comm/frames.h"
#include "comm/tcp.h"

namespace snug {

class ControlLine {
 public:
  ControlLine() = default;
  explicit ControlLine(tcp::Socket socket) : socket_(std::move(socket)) {}

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int fd() const { return socket_.fd(); }
  void close() {
    socket_ = {};
    outbox_.clear();
  }

  void post(FrameKind kind, std::span<const std::string> fields);
  void post(FrameKind kind, std::initializer_list<std::string> fields) {
    post(kind, std::span(fields.begin(), fields.size()));
  }
  bool has_unsent() const { return !outbox_.empty(); }
  // Both false: the other side has closed, or the connection is broken.
  bool flush();
  bool read();
  // flush() until all is sent, the deadline or the end of the connection.
  bool flush_until(tcp::Deadline deadline);
  std::optional<Frame> next(uint64_t limit) { return reader_.next(limit); }

 private:
  tcp::Socket socket_;
  FrameReader reader_;
  std::string outbox_;
};

}  // namespace snug
