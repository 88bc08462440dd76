#include "comm/control_line.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace snug {
namespace {

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

void ControlLine::post(FrameKind kind, std::span<const std::string> fields) {
  outbox_ += frame_bytes(kind, fields);
}

bool ControlLine::flush() {
  while (socket_ && !outbox_.empty()) {
    const ssize_t sent = ::send(fd(), outbox_.data(), outbox_.size(), MSG_NOSIGNAL);
    if (sent < 0) return would_block();
    outbox_.erase(0, static_cast<size_t>(sent));
  }
  return static_cast<bool>(socket_);
}

// A part at a time: frames are looked at in between, so that no more than one of them is kept.
bool ControlLine::read() {
  std::array<char, 65'536> part;
  const ssize_t got = ::recv(fd(), part.data(), part.size(), 0);
  if (got <= 0) return got < 0 && would_block();
  reader_.append({part.data(), static_cast<size_t>(got)});
  return true;
}

bool ControlLine::flush_until(tcp::Deadline deadline) {
  while (flush()) {
    if (outbox_.empty()) return true;
    pollfd entry{.fd = fd(), .events = POLLOUT, .revents = 0};
    if (poll(&entry, 1, tcp::poll_ms(deadline)) == 0) return false;
  }
  return false;
}

}  // namespace snug
