#include "comm/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/notes.h"
#include "base/number.h"
#include "base/text.h"

namespace snug {
namespace {

constexpr int kProtocol = 1;
constexpr uint64_t kHelloLimit = 4096;       // bytes of a message from an unknown peer
constexpr uint64_t kWelcomeLimit = 1 << 24;  // of rank 0's answer
constexpr double kHelloSeconds = 5;          // handshake timeout
constexpr double kLingerSeconds = 1;         // of a rank 0 that ends, for ranks that come later
constexpr size_t kMostUnknown = 256;         // connections before their handshake

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? printable(name.data()) : "?";
}

RankHost here() { return {host_name(), fmt::format("{}", getpid())}; }

std::string where(const JobPlace& place) {
  if (!place.local_name.empty()) return fmt::format("job {} of this host", place.local_name);
  return fmt::format("{}:{}", place.address, place.port);
}

// "1, 2 and 5"; of many the first few.
std::string list_of(std::span<const int> ranks) {
  std::string out;
  const size_t shown = std::min<size_t>(ranks.size(), 8);
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) out += i + 1 == ranks.size() ? " and " : ", ";
    out += fmt::format("{}", ranks[i]);
  }
  if (shown < ranks.size()) out += fmt::format(" and {} more", ranks.size() - shown);
  return out;
}

// Of a name that only this host's processes see, and that vanishes with them.
sockaddr_un local_address(const JobPlace& place, socklen_t& size) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  const std::string name = fmt::format("snug-job-{}-{}", getuid(), place.local_name);
  const size_t taken = std::min(name.size(), sizeof(out.sun_path) - 1);
  std::memcpy(out.sun_path + 1, name.data() + (name.size() - taken), taken);
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + taken);
  return out;
}

// Only this user's processes are let in at a local name.
bool is_own_user(const tcp::Socket& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == getuid();
}

tcp::Socket open_socket(int family) {
  return tcp::Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

tcp::Socket listen_at_name(const JobPlace& place) {
  tcp::Socket out = open_socket(AF_UNIX);
  socklen_t size = 0;
  const sockaddr_un name = local_address(place, size);
  if (!out || bind(out.fd(), reinterpret_cast<const sockaddr*>(&name), size) != 0 ||
      listen(out.fd(), SOMAXCONN) != 0) {
    throw device_error("rank 0 cannot listen for {}: {}", where(place), std::strerror(errno));
  }
  return out;
}

tcp::Socket listen_at_port(const JobPlace& place) {
  const bool loopback = is_loopback(place.address);
  tcp::Socket out = open_socket(AF_INET6);
  const int off = 0, on = 1;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<uint16_t>(place.port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  four.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  const bool use_six = out && (!loopback || place.address == "::1");
  if (use_six) {
    if (loopback) six.sin6_addr = in6addr_loopback;
    setsockopt(out.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));  // IPv4 too
  } else {
    out = open_socket(AF_INET);
  }
  setsockopt(out.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const auto* address =
      use_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  if (bind(out.fd(), address, use_six ? sizeof(six) : sizeof(four)) != 0 ||
      listen(out.fd(), SOMAXCONN) != 0) {
    throw device_error("rank 0 cannot listen at {}: {}", where(place), std::strerror(errno))
        .hint("another program has the port, perhaps another job: give another MASTER_PORT");
  }
  return out;
}

tcp::Socket listener_of(const JobPlace& place) {
  if (!place.local_name.empty()) return listen_at_name(place);
  if (place.listener < 0) return listen_at_port(place);
  tcp::Socket out(place.listener);
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(out.fd(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
    throw usage_error("{}={} is no socket that listens", kListenerVariable, place.listener);
  return out;
}

std::string peer_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return "this host";
  }
  return host[0] == '\0' ? "this host" : host.data();
}

// Rank 0's side.
class Reception {
 public:
  Reception(const JobPlace& place, double seconds)
      : place_(place), seconds_(seconds), listener_(listener_of(place)) {
    members_.lines.resize(static_cast<size_t>(place.ranks));
    members_.hosts.resize(static_cast<size_t>(place.ranks));
    members_.hosts[0] = here();
  }

  Joined run() {
    const tcp::Deadline end = tcp::after(seconds_);
    while (missing_ > 0) {
      if (tcp::poll_ms(end) == 0) give_up();
      wait(end);
      for (int r = 1; r < place_.ranks; ++r) require_alive(r);
      for (UnknownPeer& one : unknown_) look_at(one);
      std::erase_if(unknown_, [](const UnknownPeer& one) { return !one.line; });
      accept_all();
    }
    std::vector<std::string> hosts;
    for (const RankHost& one : members_.hosts) hosts.insert(hosts.end(), {one.host, one.pid});
    for (ControlLine& line : members_.lines)
      if (line) line.post(FrameKind::welcome, hosts);
    return std::move(members_);
  }

 private:
  struct UnknownPeer {
    ControlLine line;
    tcp::Deadline until;
  };

  void wait(tcp::Deadline end) {
    std::vector<pollfd> entries{{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const UnknownPeer& one : unknown_) {
      entries.push_back({.fd = one.line.fd(), .events = POLLIN, .revents = 0});
      end = std::min(end, one.until);
    }
    for (const ControlLine& line : members_.lines)
      if (line) entries.push_back({.fd = line.fd(), .events = POLLIN, .revents = 0});
    poll(entries.data(), entries.size(), tcp::poll_ms(end));
  }

  // A rank says nothing while it waits: all that can be read is its end.
  void require_alive(int rank) {
    ControlLine& line = members_.lines[static_cast<size_t>(rank)];
    if (!line || line.read()) return;
    line.close();
    end_all(device_error("rank {} on {} ended before all ranks had come", rank,
                         members_.hosts[static_cast<size_t>(rank)].host));
  }

  void accept_all() {
    while (unknown_.size() < kMostUnknown) {
      tcp::Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket) return;
      if (!place_.local_name.empty() && !is_own_user(socket)) continue;
      tcp::set_options(socket);
      unknown_.push_back({ControlLine(std::move(socket)), tcp::after(kHelloSeconds)});
    }
  }

  void look_at(UnknownPeer& one) {
    try {
      const bool open = one.line.read();
      if (const std::optional<Frame> frame = one.line.next(kHelloLimit)) {
        welcome(one, *frame);
      } else if (!open) {
        drop(one, "it closed without a word");
      } else if (tcp::poll_ms(one.until) == 0) {
        drop(one, fmt::format("it said nothing for {} s", kHelloSeconds));
      }
    } catch (const Error& error) {
      if (error.code() != ExitCode::bad_input) throw;
      drop(one, error.what());
    }
  }

  void welcome(UnknownPeer& one, const Frame& frame) {
    if (frame.kind != FrameKind::hello) throw bad_input("its first message is no greeting");
    const std::vector<std::string> hello = frame.fields();
    if (hello.size() < 2) throw bad_input("its greeting is too short");
    if (!same_token(hello[1], place_.token)) {
      refuse(one.line, "", "its token is that of another job");
      return drop(one, "its token is not this job's");
    }
    int protocol = 0, rank = 0, ranks = 0;
    const bool numbers = hello.size() == 6 && read_number(hello[2], rank) &&
                         read_number(hello[3], ranks) && rank > 0;
    if (!read_number(hello[0], protocol) || protocol != kProtocol || !numbers) {
      end_all(
          usage_error("a rank at {} runs another Snug: its greeting is of protocol {}, rank 0's "
                      "of {}",
                      peer_address(one.line.fd()), printable(hello[0]), kProtocol));
    }
    const RankHost at{printable(hello[4]), printable(hello[5])};
    if (ranks != place_.ranks || rank >= ranks) {
      end_all(usage_error("rank {} on {} is one of {} ranks, rank 0 on {} one of {}", rank, at.host,
                          ranks, members_.hosts[0].host, place_.ranks));
    }
    take(one, rank, at);
  }

  void take(UnknownPeer& one, int rank, const RankHost& at) {
    const auto r = static_cast<size_t>(rank);
    RankHost& before = members_.hosts[r];
    if (members_.lines[r]) {
      twice_ = fmt::format("rank {} came twice: process {} on {}, then {} on {}", rank, before.pid,
                           before.host, at.pid, at.host);
      refuse(one.line, "", twice_);
      one.line.close();
      return;
    }
    members_.lines[r] = std::move(one.line);
    one.line = {};
    before = at;
    --missing_;
  }

  static void refuse(ControlLine& line, const std::string& said, const std::string& why) {
    line.post(FrameKind::refused, {said, why});
    line.flush();
  }

  void drop(UnknownPeer& one, const std::string& why) {
    dropped_ =
        fmt::format("a connection from {} was dropped: {}", peer_address(one.line.fd()), why);
    if (!said_) note("{}", dropped_);
    said_ = true;
    one.line.close();
  }

  // Ranks that wait learn that rank 0 says why, and so do ranks that come a little later.
  [[noreturn]] void end_all(const Error& error, double linger = kLingerSeconds) {
    const tcp::Deadline end = tcp::after(linger);
    for (ControlLine& line : members_.lines)
      if (line) refuse(line, "said", error.what());
    std::vector<ControlLine> refused;  // open until all have been told
    while (true) {
      for (UnknownPeer& one : unknown_) {
        refuse(one.line, "said", error.what());
        refused.push_back(std::move(one.line));
      }
      unknown_.clear();
      if (refused.size() >= missing_ || tcp::poll_ms(end) == 0) break;
      pollfd entry{.fd = listener_.fd(), .events = POLLIN, .revents = 0};
      poll(&entry, 1, tcp::poll_ms(end));
      accept_all();
    }
    throw error;
  }

  [[noreturn]] void give_up() {
    std::vector<int> absent;
    for (int r = 1; r < place_.ranks; ++r)
      if (!members_.lines[static_cast<size_t>(r)]) absent.push_back(r);
    std::string text = fmt::format("{} {} of {} did not come to rank 0 at {} in {} s",
                                   absent.size() == 1 ? "rank" : "ranks", list_of(absent),
                                   place_.ranks, where(place_), seconds_);
    for (const std::string& note : {twice_, dropped_})
      if (!note.empty()) text += "; " + note;
    end_all(device_error("{}", text)
                .hint("start every rank, with the same MASTER_ADDR and MASTER_PORT"),
            /*linger=*/0);
  }

  const JobPlace& place_;
  double seconds_;
  tcp::Socket listener_;
  Joined members_;
  size_t missing_ = static_cast<size_t>(place_.ranks - 1);
  std::vector<UnknownPeer> unknown_;
  std::string twice_, dropped_;
  bool said_ = false;
};

// The other ranks' side.
class Newcomer {
 public:
  Newcomer(const JobPlace& place, double seconds)
      : place_(place), seconds_(seconds), end_(tcp::after(seconds)) {}

  Joined run() {
    while (true) {
      if (ControlLine line{connect_once()}) {
        const RankHost me = here();
        line.post(FrameKind::hello,
                  {fmt::format("{}", kProtocol), place_.token, fmt::format("{}", place_.rank),
                   fmt::format("{}", place_.ranks), me.host, me.pid});
        if (std::optional<Joined> joined = wait_for_answer(line)) return *std::move(joined);
        why_ = "it closed the connection";
      }
      if (tcp::poll_ms(end_) == 0) give_up();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

 private:
  tcp::Socket connect_once() {
    return place_.local_name.empty() ? connect_to_address() : connect_to_name();
  }

  tcp::Socket connect_to_name() {
    tcp::Socket out = open_socket(AF_UNIX);
    socklen_t size = 0;
    const sockaddr_un name = local_address(place_, size);
    if (!out || connect(out.fd(), reinterpret_cast<const sockaddr*>(&name), size) != 0) {
      why_ = std::strerror(errno);
      return {};
    }
    if (is_own_user(out)) return out;
    why_ = "another user's process listens there";
    return {};
  }

  // Every address of every name, one after another.
  tcp::Socket connect_to_address() {
    tcp::Socket out;
    for (const std::string& name : split(place_.address, ',')) {
      addrinfo wanted{}, *found = nullptr;
      wanted.ai_socktype = SOCK_STREAM;
      const int failure = getaddrinfo(name.c_str(), nullptr, &wanted, &found);
      if (failure != 0) why_ = fmt::format("{} is not known: {}", name, gai_strerror(failure));
      for (const addrinfo* one = found; one != nullptr && !out; one = one->ai_next) {
        std::array<char, NI_MAXHOST> number{};
        if (getnameinfo(one->ai_addr, one->ai_addrlen, number.data(), number.size(), nullptr, 0,
                        NI_NUMERICHOST) != 0) {
          continue;
        }
        out = tcp::connect_to(number.data(), place_.port, std::min(end_, tcp::after(5)));
        if (!out) why_ = std::strerror(errno);
      }
      if (found != nullptr) freeaddrinfo(found);
      if (out) break;
    }
    return out;
  }

  // Nothing: the connection ended without one.
  std::optional<Joined> wait_for_answer(ControlLine& line) {
    line.flush_until(end_);
    // Rank 0 waits for all others, as long as this one would: it says which are missing.
    const tcp::Deadline patience = tcp::after(seconds_ + 5);
    while (true) {
      pollfd entry{.fd = line.fd(), .events = POLLIN, .revents = 0};
      if (poll(&entry, 1, tcp::poll_ms(patience)) == 0) {
        throw device_error("rank 0 at {} has not said for {} s that all ranks are there",
                           where(place_), seconds_ + 5);
      }
      const bool open = line.read();
      if (const std::optional<Frame> frame = line.next(kWelcomeLimit)) return answer(line, *frame);
      if (!open) return std::nullopt;
    }
  }

  Joined answer(ControlLine& line, const Frame& frame) {
    if (frame.kind == FrameKind::refused) {
      const std::vector<std::string> why = frame.fields(2);
      if (!why[0].empty()) throw Error(ExitCode::device, "");
      throw usage_error("rank 0 at {} refuses rank {}: {}", where(place_), place_.rank,
                        printable(why[1]));
    }
    if (frame.kind != FrameKind::welcome)
      throw bad_input("{} is no rank 0 of Snug's", where(place_));
    const std::vector<std::string> hosts = frame.fields(2 * static_cast<size_t>(place_.ranks));
    Joined out;
    out.lines.resize(1);
    out.lines[0] = std::move(line);
    for (size_t r = 0; r < hosts.size(); r += 2) out.hosts.push_back({hosts[r], hosts[r + 1]});
    return out;
  }

  [[noreturn]] void give_up() const {
    throw device_error("rank {} found no rank 0 at {} in {} s: {}", place_.rank, where(place_),
                       seconds_, why_)
        .hint("is rank 0 started, and can this host reach it there?");
  }

  const JobPlace& place_;
  double seconds_;
  tcp::Deadline end_;
  std::string why_;
};

// Rank 0 tells through MPI where it listens.
JobPlace place_by_mpi(JobPlace place, tcp::Listener& listener, const OpenBootstrap& over_mpi) {
  const std::unique_ptr<Bootstrap> mpi = over_mpi ? over_mpi() : nullptr;
  if (!mpi) {
    throw usage_error("mpirun has started ranks on several hosts, and nothing says where rank 0 is")
        .hint("set MASTER_ADDR and MASTER_PORT for all ranks (mpirun -x)");
  }
  std::vector<std::string> mine;
  if (place.rank == 0) {
    listener = tcp::listen_on(/*loopback=*/false);
    std::vector<std::string> names = tcp::own_addresses();
    names.push_back(host_name());
    mine = {join(names, ","), fmt::format("{}", listener.port), random_token()};
  }
  const std::vector<std::string> said = split(mpi->exchange(join(mine, " ")).at(0), ' ');
  if (said.size() != 3 || !read_number(said[1], place.port))
    throw device_error("MPI did not deliver rank 0's address");
  place.address = said[0];
  place.token = said[2];
  if (place.rank == 0) place.listener = dup(listener.socket.fd());
  return place;
}

}  // namespace

Joined rendezvous(const JobPlace& given, double seconds, const OpenBootstrap& over_mpi) {
  JobPlace place = given;
  if (place.ranks == 1) return {.lines = {}, .hosts = {here()}};
  tcp::Listener listener;
  if (place.address.empty() && place.local_name.empty())
    place = place_by_mpi(place, listener, over_mpi);
  return place.rank == 0 ? Reception(place, seconds).run() : Newcomer(place, seconds).run();
}

tcp::Listener listen_for_ranks() { return tcp::listen_on(/*loopback=*/true); }

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw internal_error("no random bytes: {}", std::strerror(errno));
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

bool same_token(std::string_view a, std::string_view b) {
  unsigned differs = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < b.size(); ++i)
    differs |=
        static_cast<unsigned char>(b[i]) ^ static_cast<unsigned char>(i < a.size() ? a[i] : '\0');
  return differs == 0;
}

}  // namespace snug
