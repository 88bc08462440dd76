// TCP connections that never block: the caller says until when it waits.
//
//   Socket peer = connect_to("127.0.0.1", port, deadline);
//   if (peer && send_all(peer, bytes, deadline)) ...
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace snug::tcp {

using Deadline = std::chrono::steady_clock::time_point;
Deadline after(double seconds);

// A file descriptor that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

struct Listener {
  Socket socket;
  int port = 0;
};
// At a port that the system chooses; for this machine alone, or for every address that it has.
Listener listen_on(bool loopback);

// This machine's addresses as numbers, without loopback and those of one link.
std::vector<std::string> own_addresses();

// Of a connection that was made or accepted: small messages go at once, and a host that vanishes is
// noticed within about a minute.
void set_options(const Socket& connection);

// Not connected (errno says why): an empty socket.
Socket connect_to(const std::string& address, int port, Deadline deadline);

// False: too late, or the other side has closed.
bool send_all(const Socket& to, std::span<const std::byte> bytes, Deadline deadline);
bool receive_all(const Socket& from, std::span<std::byte> bytes, Deadline deadline);

// Milliseconds for poll(), rounded up; 0 when it is too late.
int poll_ms(Deadline deadline);

}  // namespace snug::tcp
