#include "comm/tcp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace snug::tcp {
namespace {

// Of either family.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address address_of(const in6_addr& host, int port) {
  Address out;
  auto& in = reinterpret_cast<sockaddr_in6&>(out.storage);
  in.sin6_family = AF_INET6;
  in.sin6_addr = host;
  in.sin6_port = htons(static_cast<uint16_t>(port));
  out.size = sizeof(in);
  return out;
}

Address address_of(const in_addr& host, int port) {
  Address out;
  auto& in = reinterpret_cast<sockaddr_in&>(out.storage);
  in.sin_family = AF_INET;
  in.sin_addr = host;
  in.sin_port = htons(static_cast<uint16_t>(port));
  out.size = sizeof(in);
  return out;
}

// size 0: no address.
Address parse(const std::string& text, int port) {
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return address_of(four, port);
  in6_addr six{};
  if (inet_pton(AF_INET6, text.c_str(), &six) == 1) return address_of(six, port);
  return {};
}

void set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

Socket new_socket(int family) {
  return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// An empty socket where this machine has no addresses of that kind.
Socket bound(Address address) {
  Socket socket = new_socket(address.storage.ss_family);
  if (!socket) return {};
  if (address.storage.ss_family == AF_INET6) set(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.fd(), address.get(), address.size) != 0) return {};
  return socket;
}

int port_of(const Socket& socket) {
  Address address;
  address.size = sizeof(address.storage);
  if (getsockname(socket.fd(), address.get(), &address.size) != 0) return 0;
  return ntohs(address.storage.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port
                   : reinterpret_cast<sockaddr_in&>(address.storage).sin_port);
}

// Waits for `events`; false: too late.
bool wait_for(const Socket& socket, short events, Deadline deadline) {
  pollfd entry{.fd = socket.fd(), .events = events, .revents = 0};
  while (true) {
    const int ms = poll_ms(deadline);
    const int ready = poll(&entry, 1, ms);
    if (ready > 0) return true;
    if (ready == 0 && ms == 0) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

std::string text_of(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    inet_ntop(AF_INET, &in, text.data(), text.size());
  } else if (address.sa_family == AF_INET6) {
    const auto& in = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&in)) inet_ntop(AF_INET6, &in, text.data(), text.size());
  }
  return text.data();
}

}  // namespace

Deadline after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}

int poll_ms(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Listener listen_on(bool loopback) {
  Listener out;
  if (!loopback) out.socket = bound(address_of(in6addr_any, 0));  // IPv4 too
  if (!out.socket)
    out.socket = bound(address_of(in_addr{htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY)}, 0));
  if (!out.socket || listen(out.socket.fd(), SOMAXCONN) != 0)
    throw device_error("no socket to listen on: {}", std::strerror(errno));
  out.port = port_of(out.socket);
  return out;
}

std::vector<std::string> own_addresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::vector<std::string> out;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool usable = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable || one->ifa_addr == nullptr) continue;
    if (std::string text = text_of(*one->ifa_addr); !text.empty()) out.push_back(std::move(text));
  }
  freeifaddrs(all);
  return out;
}

void set_options(const Socket& connection) {
  const int fd = connection.fd();
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

Socket connect_to(const std::string& address, int port, Deadline deadline) {
  Address to = parse(address, port);
  errno = EINVAL;
  if (to.size == 0) return {};
  Socket socket = new_socket(to.storage.ss_family);
  if (!socket) return {};
  if (connect(socket.fd(), to.get(), to.size) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return {};
    errno = ETIMEDOUT;
    if (!wait_for(socket, POLLOUT, deadline)) return {};
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    if (error != 0) return {};
  }
  set_options(socket);
  return socket;
}

bool send_all(const Socket& to, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(to.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (!try_again() || !wait_for(to, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool receive_all(const Socket& from, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(from.fd(), bytes.data(), bytes.size(), 0);
    if (got == 0) return false;
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (!try_again() || !wait_for(from, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

}  // namespace snug::tcp
