#include "comm/socket_mesh.h"

#include <fmt/ranges.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"

namespace snug {
namespace {

constexpr size_t kMeshTokenBytes = 32, kMostCallers = 64, kMostAddresses = 64;
constexpr double kPerAddress_s = 5;  // before the next address of a rank is tried
using MeshToken = std::array<unsigned char, kMeshTokenBytes>;

enum MeshChannel : uint32_t { kDataChannel, kControlChannel, kChannels };

// The first bytes of a connection, and of the answer.
struct MeshHello {
  std::array<char, 8> magic{'s', 'n', 'u', 'g', 'm', 'e', 's', 'h'};
  MeshToken token{};
  uint32_t rank = 0;
  uint32_t channel = 0;
};

bool same_mesh_token(const MeshToken& a,
                     const MeshToken& b) {  // takes as long wherever they differ
  unsigned differs = 0;
  for (size_t i = 0; i < kMeshTokenBytes; ++i) differs |= static_cast<unsigned>(a[i] ^ b[i]);
  return differs == 0;
}

struct MeshTokens {
  MeshToken call{}, answer{};
};

MeshTokens random_mesh_tokens() {
  MeshTokens out;
  for (MeshToken* token : {&out.call, &out.answer})
    if (getrandom(token->data(), kMeshTokenBytes, 0) != static_cast<ssize_t>(kMeshTokenBytes))
      throw device_error("no random bytes for a token: {}", std::strerror(errno));
  return out;
}

std::string text_of_tokens(const MeshTokens& tokens) {
  std::string out(tokens.call.begin(), tokens.call.end());
  return out.append(tokens.answer.begin(), tokens.answer.end());
}

// Equal where two processes reach each other over loopback: the same boot and network namespace.
std::string network_of_this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 256> name{};
  if (boot.empty()) gethostname(name.data(), name.size() - 1);
  std::array<char, 64> net{};
  if (readlink("/proc/self/ns/net", net.data(), net.size() - 1) < 0) net[0] = '\0';
  return fmt::format("{}{} {}", boot, name.data(), net.data());
}

struct MeshPlace {  // where a rank listens
  int port = 0;
  std::vector<std::string> addresses;
};

MeshPlace parse_mesh_place(const std::string& text, int rank, std::string_view name) {
  std::istringstream in(text);
  MeshPlace out;
  in >> out.port;
  std::string address;
  while (out.addresses.size() < kMostAddresses && in >> address) out.addresses.push_back(address);
  if (out.port <= 0 || out.port > 65535)
    throw device_error("{}: rank {} tells no port to connect to", name, rank);
  return out;
}

class Mesh {
 public:
  Mesh(Bootstrap& bootstrap, std::string_view name, const MeshSettings& settings)
      : me_(bootstrap.rank()), name_(name), settings_(settings) {
    meet(bootstrap);
    deadline_ = tcp::after(settings.timeout_s);
  }

  // Each rank calls those below it, in order, and then answers those above. So rank 0 answers at
  // once, and every other as soon as those below it have answered.
  std::vector<SocketLink> form() && {
    for (int r = 0; r < me_; ++r)
      for (const MeshChannel channel : {kDataChannel, kControlChannel})
        slot(r, channel) = call(r, channel);
    while (!missing().empty()) answer_some();
    return std::move(links_);
  }

 private:
  struct Caller {
    tcp::Socket socket;
    MeshHello hello;
    size_t got = 0;  // bytes of it
  };

  void meet(Bootstrap& bootstrap) {
    const MeshTokens mine = me_ == 0 ? random_mesh_tokens() : MeshTokens{};
    networks_ = bootstrap.exchange(network_of_this_process() + text_of_tokens(mine));
    const std::string& first = networks_.at(0);
    if (std::ranges::any_of(networks_, [](auto& n) { return n.size() < 2 * kMeshTokenBytes; }))
      throw device_error("{}: a rank tells something that is no token", name_);
    std::ranges::copy(first.substr(first.size() - 2 * kMeshTokenBytes, kMeshTokenBytes),
                      tokens_.call.begin());
    std::ranges::copy(first.substr(first.size() - kMeshTokenBytes), tokens_.answer.begin());
    for (std::string& network : networks_) network.resize(network.size() - 2 * kMeshTokenBytes);

    const bool together =
        settings_.loopback && std::ranges::all_of(networks_, [&](const std::string& network) {
          return network == networks_[0];
        });
    listener_ = tcp::listen_on(together);
    own_ = together ? std::vector<std::string>{"127.0.0.1"} : tcp::own_addresses();
    const auto places =
        bootstrap.exchange(fmt::format("{} {}", listener_.port, fmt::join(own_, " ")));
    links_.resize(places.size());
    for (int r = 0; r < static_cast<int>(places.size()); ++r)
      places_.push_back(parse_mesh_place(places[static_cast<size_t>(r)], r, name_));
  }

  tcp::Socket& slot(int rank, uint32_t channel) {
    SocketLink& link = links_[static_cast<size_t>(rank)];
    return channel == kDataChannel ? link.data : link.control;
  }

  // An address that this machine has too (a bridge of containers) leads here and not to a rank on
  // another machine.
  bool leads_to(int rank, const std::string& address) const {
    return networks_[static_cast<size_t>(rank)] == networks_[static_cast<size_t>(me_)] ||
           std::ranges::find(own_, address) == own_.end();
  }

  tcp::Socket call(int rank, MeshChannel channel) {
    const MeshPlace& place = places_[static_cast<size_t>(rank)];
    std::string why = "it has no address that can be reached";
    bool tried = true;
    while (tried && tcp::poll_ms(deadline_) > 0) {
      tried = false;
      for (const std::string& address : place.addresses) {
        if (!leads_to(rank, address)) continue;
        tried = true;
        const auto until = place.addresses.size() == 1
                               ? deadline_
                               : std::min(deadline_, tcp::after(kPerAddress_s));
        tcp::Socket socket = tcp::connect_to(address, place.port, until);
        if (!socket) {
          why = fmt::format("{} port {}: {}", address, place.port, std::strerror(errno));
        } else if (greet(socket, rank, channel, until)) {
          return socket;
        } else {
          why = fmt::format("{} port {}: it does not answer", address, place.port);
        }
      }
      poll(nullptr, 0, std::min(100, tcp::poll_ms(deadline_)));
    }
    throw device_error("{}: rank {} cannot connect to rank {} within {:g} s: {}", name_, me_, rank,
                       settings_.timeout_s, why)
        .hint("look for a firewall between the machines of the job");
  }

  bool greet(const tcp::Socket& socket, int rank, MeshChannel channel, tcp::Deadline until) const {
    const MeshHello hello{
        .token = tokens_.call, .rank = static_cast<uint32_t>(me_), .channel = channel};
    MeshHello answer;
    return tcp::send_all(socket, std::as_bytes(std::span(&hello, 1)), until) &&
           tcp::receive_all(socket, std::as_writable_bytes(std::span(&answer, 1)), until) &&
           answer.magic == hello.magic && same_mesh_token(answer.token, tokens_.answer) &&
           answer.rank == static_cast<uint32_t>(rank);
  }

  std::vector<int> missing() {
    std::vector<int> out;
    for (int r = me_ + 1; r < static_cast<int>(links_.size()); ++r)
      if (!slot(r, kDataChannel) || !slot(r, kControlChannel)) out.push_back(r);
    return out;
  }

  void answer_some() {
    std::vector<pollfd> entries{{.fd = listener_.socket.fd(), .events = POLLIN, .revents = 0}};
    for (const Caller& caller : callers_)
      entries.push_back({.fd = caller.socket.fd(), .events = POLLIN, .revents = 0});
    const int ms = tcp::poll_ms(deadline_);
    if (poll(entries.data(), entries.size(), ms) == 0 && ms == 0) {
      throw device_error("{}: rank {} waited {:g} s for rank {} to connect", name_, me_,
                         settings_.timeout_s, fmt::join(missing(), ", "));
    }
    for (size_t i = callers_.size(); i-- > 0;) {
      if (entries[i + 1].revents != 0 && !listen_to(callers_[i]))
        callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if ((entries[0].revents & POLLIN) != 0) accept_one();
  }

  // The oldest connection without a handshake is dropped where there are too many.
  void accept_one() {
    tcp::Socket socket(
        accept4(listener_.socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    if (callers_.size() == kMostCallers) callers_.erase(callers_.begin());
    callers_.push_back({std::move(socket), {}, 0});
  }

  // False: nothing more is expected of this caller.
  bool listen_to(Caller& caller) {
    const auto hello = std::as_writable_bytes(std::span(&caller.hello, 1)).subspan(caller.got);
    const ssize_t got = recv(caller.socket.fd(), hello.data(), hello.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) return false;
    caller.got += static_cast<size_t>(got);
    if (caller.got < sizeof(MeshHello)) return true;
    const auto rank = static_cast<int64_t>(caller.hello.rank);
    const uint32_t channel = caller.hello.channel;
    if (caller.hello.magic != MeshHello{}.magic ||
        !same_mesh_token(caller.hello.token, tokens_.call) || rank <= me_ ||
        rank >= static_cast<int64_t>(links_.size()) || channel >= kChannels ||
        slot(static_cast<int>(rank), channel))
      return false;
    const MeshHello answer{
        .token = tokens_.answer, .rank = static_cast<uint32_t>(me_), .channel = channel};
    tcp::set_options(caller.socket);
    if (tcp::send_all(caller.socket, std::as_bytes(std::span(&answer, 1)), deadline_))
      slot(static_cast<int>(rank), channel) = std::move(caller.socket);
    return false;
  }

  int me_;
  std::string name_;
  MeshSettings settings_;
  MeshTokens tokens_;
  std::vector<std::string> networks_;  // by rank
  std::vector<std::string> own_;       // addresses
  std::vector<MeshPlace> places_;      // by rank
  tcp::Listener listener_;
  tcp::Deadline deadline_;
  std::vector<Caller> callers_;
  std::vector<SocketLink> links_;  // by rank
};

}  // namespace

std::vector<SocketLink> socket_mesh(Bootstrap& bootstrap, std::string_view name,
                                    const MeshSettings& settings) {
  return Mesh(bootstrap, name, settings).form();
}

}  // namespace snug
