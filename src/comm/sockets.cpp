#include "comm/sockets.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/error.h"

namespace snug {
namespace {

enum class SocketCall : int64_t { all_gather, all_to_all, broadcast, message, barrier };
constexpr std::array<std::string_view, 5> kSocketCallNames{"all_gather", "all_to_all", "broadcast",
                                                           "message", "barrier"};

// Before the bytes of a message: what both sides must be in.
struct MessageHeader {
  SocketCall call{};
  int64_t bytes = 0;

  bool operator==(const MessageHeader&) const = default;
  std::string text() const {
    const auto index = static_cast<size_t>(call);
    return fmt::format("{} of {} bytes",
                       index < kSocketCallNames.size() ? kSocketCallNames[index] : "no known call",
                       bytes);
  }
};
constexpr auto kHeaderBytes = static_cast<int64_t>(sizeof(MessageHeader));

struct Outgoing {
  MessageHeader header;
  const std::byte* from = nullptr;
  int64_t sent = 0;  // of header and bytes
};
struct Incoming {
  MessageHeader header;  // what must come
  std::byte* to = nullptr;
  MessageHeader came;
  int64_t received = 0;  // of header and bytes
};

// Messages in the order of calls; `first` is the one under way.
template <typename Message>
struct MessageQueue {
  std::vector<Message> messages;
  size_t first = 0;

  bool empty() const { return first == messages.size(); }
  Message& front() { return messages[first]; }
  void pop() {
    if (++first == messages.size()) clear();
  }
  void clear() {
    messages.clear();
    first = 0;
  }
};

struct SocketPeer {
  SocketLink link;
  MessageQueue<Outgoing> out;
  MessageQueue<Incoming> in;
  bool left = false;  // it has said goodbye
};

// What a rank says over `control`: a letter, after kFailed the reason, and kEnd.
constexpr char kGoodbye = 'g', kFailed = 'f', kEnd = '\0';
constexpr size_t kMostWords = 4096;
constexpr double kWaitForWords_s = 1;
constexpr int kReadsInARow = 16;  // before other peers are looked at

class SocketEnd final : public Communicator {
 public:
  SocketEnd(std::vector<SocketLink> links, int rank, std::string_view name)
      : rank_(rank), name_(name), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw device_error("{}: no event to wait for: {}", name_, std::strerror(errno));
    for (SocketLink& link : links) peers_.push_back({std::move(link), {}, {}, false});
  }

  ~SocketEnd() override {
    if (failure_.empty()) {
      for_peers([&](SocketPeer& peer, int) { say(peer, {&kGoodbye, 1}); });
    } else {
      abort(failure_);  // ranks that still wait learn why
    }
  }

  std::string_view engine() const override { return "sockets"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }

  void all_gather(std::span<const std::byte> mine, std::byte* all, void*) override {
    const auto bytes = static_cast<int64_t>(mine.size());
    copy_here(all + rank_ * bytes, mine.data(), bytes);
    for_peers([&](SocketPeer& peer, int r) {
      put(peer, SocketCall::all_gather, mine.data(), bytes);
      take(peer, SocketCall::all_gather, all + r * bytes, bytes);
    });
    run_unless_grouped();
  }

  void all_to_all(const std::byte* from, std::byte* to, int64_t block, void*) override {
    copy_here(to + rank_ * block, from + rank_ * block, block);
    for_peers([&](SocketPeer& peer, int r) {
      put(peer, SocketCall::all_to_all, from + r * block, block);
      take(peer, SocketCall::all_to_all, to + r * block, block);
    });
    run_unless_grouped();
  }

  void broadcast(std::span<std::byte> bytes, int root, void*) override {
    const auto size = static_cast<int64_t>(bytes.size());
    if (rank_ == root) {
      for_peers(
          [&](SocketPeer& peer, int) { put(peer, SocketCall::broadcast, bytes.data(), size); });
    } else {
      take(peer_at(root), SocketCall::broadcast, bytes.data(), size);
    }
    run_unless_grouped();
  }

  void send(std::span<const std::byte> bytes, int to, void*) override {
    put(peer_at(to), SocketCall::message, bytes.data(), static_cast<int64_t>(bytes.size()));
    run_unless_grouped();
  }
  void receive(std::span<std::byte> bytes, int from, void*) override {
    take(peer_at(from), SocketCall::message, bytes.data(), static_cast<int64_t>(bytes.size()));
    run_unless_grouped();
  }

  void barrier() override {
    for_peers([&](SocketPeer& peer, int) {
      put(peer, SocketCall::barrier, nullptr, 0);
      take(peer, SocketCall::barrier, nullptr, 0);
    });
    run_unless_grouped();
  }

  void begin_group() override { grouped_ = true; }
  void end_group() override {
    grouped_ = false;
    run();
  }

  void abort(std::string_view why) override {
    if (told_.exchange(true)) return;
    fail(why);
    const std::string words = kFailed + std::string(why.substr(0, kMostWords - 2)) + kEnd;
    for_peers([&](SocketPeer& peer, int) { say(peer, words); });
    constexpr uint64_t kOne = 1;
    [[maybe_unused]] const ssize_t woken = write(wake_.fd(), &kOne, sizeof(kOne));
  }

 private:
  template <typename F>
  void for_peers(const F& f) {
    for (int i = 1; i < ranks(); ++i) {  // each begins with another
      const int r = (rank_ + i) % ranks();
      f(peers_[static_cast<size_t>(r)], r);
    }
  }

  SocketPeer& peer_at(int rank) {
    if (rank == rank_ || rank < 0 || rank >= ranks())
      throw internal_error("{}: rank {} of {} has no connection to rank {}", name_, rank_, ranks(),
                           rank);
    return peers_[static_cast<size_t>(rank)];
  }

  static void copy_here(std::byte* to, const std::byte* from, int64_t bytes) {
    if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void put(SocketPeer& peer, SocketCall call, const std::byte* from, int64_t bytes) {
    last_ = {call, bytes};
    peer.out.messages.push_back({{call, bytes}, from, 0});
  }
  void take(SocketPeer& peer, SocketCall call, std::byte* to, int64_t bytes) {
    last_ = {call, bytes};
    peer.in.messages.push_back({{call, bytes}, to, {}, 0});
  }

  void run_unless_grouped() {
    if (!grouped_) run();
  }

  void run() {
    try {
      progress();
    } catch (const Error& error) {
      fail(error.what());
      for_peers([](SocketPeer& peer, int) {
        peer.out.clear();
        peer.in.clear();
      });
      throw;
    }
  }

  // Everything that is queued. `control` is looked at in every call, for a failure of any rank.
  void progress() {
    throw_failure();
    for_peers([&](SocketPeer& peer, int r) { send_some(peer, r); });
    bool pending = true;
    while (pending) {
      pending = list_what_to_wait_for();
      const int ready = poll(entries_.data(), entries_.size(), pending ? -1 : 0);
      if (ready < 0 && errno != EINTR)
        throw device_error("{}: waiting for ranks failed: {}", name_, std::strerror(errno));
      if (ready <= 0) continue;
      throw_failure();
      size_t at = 1;
      std::optional<int> dead;
      for_peers([&](SocketPeer& peer, int r) {
        if (entries_[at++].revents != 0 && !read_control(peer)) dead = r;
      });
      if (dead) throw died(*dead);
      for_peers([&](SocketPeer& peer, int r) {
        const short came = entries_[at++].revents;
        if ((came & (POLLIN | POLLHUP | POLLERR)) != 0) receive_some(peer, r);
        if ((came & (POLLOUT | POLLHUP | POLLERR)) != 0) send_some(peer, r);
      });
    }
  }

  // This group's own event, then the `control` of each, then the data of each. poll() passes over
  // negative descriptors.
  bool list_what_to_wait_for() {
    bool pending = false;
    entries_.clear();
    entries_.push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
    for_peers([&](SocketPeer& peer, int) {
      entries_.push_back(
          {.fd = peer.left ? -1 : peer.link.control.fd(), .events = POLLIN, .revents = 0});
    });
    for_peers([&](SocketPeer& peer, int) {
      const int events = (peer.out.empty() ? 0 : POLLOUT) | (peer.in.empty() ? 0 : POLLIN);
      pending |= events != 0;
      entries_.push_back({.fd = events != 0 ? peer.link.data.fd() : -1,
                          .events = static_cast<short>(events),
                          .revents = 0});
    });
    return pending;
  }

  void send_some(SocketPeer& peer, int rank) {
    while (!peer.out.empty()) {
      Outgoing& message = peer.out.front();
      const int64_t total = kHeaderBytes + message.header.bytes;
      while (message.sent < total) {
        const ssize_t sent = send_rest(peer.link.data, message);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (sent < 0) gone(peer, rank, message.header);
        message.sent += sent;
      }
      peer.out.pop();
    }
  }

  // Header and bytes, as much as the connection takes: the system's limit is below 2^31 a call.
  static ssize_t send_rest(const tcp::Socket& to, Outgoing& message) {
    std::array<iovec, 2> parts{};
    size_t count = 0;
    const auto add = [&](const void* data, int64_t bytes, int64_t skip) {
      if (skip >= bytes) return;
      auto* start = const_cast<char*>(static_cast<const char*>(data)) + skip;
      parts[count++] = {start, static_cast<size_t>(bytes - skip)};
    };
    add(&message.header, kHeaderBytes, message.sent);
    add(message.from, message.header.bytes, std::max<int64_t>(0, message.sent - kHeaderBytes));
    msghdr all{};
    all.msg_iov = parts.data();
    all.msg_iovlen = count;
    return sendmsg(to.fd(), &all, MSG_NOSIGNAL);
  }

  void receive_some(SocketPeer& peer, int rank) {
    for (int reads = 0; !peer.in.empty() && reads < kReadsInARow; ++reads) {
      Incoming& message = peer.in.front();
      if (!receive_rest(peer, rank, message)) return;
      if (message.received == kHeaderBytes && message.came != message.header) {
        throw internal_error("{}: rank {} is in {}, rank {} in {}", name_, rank_,
                             message.header.text(), rank, message.came.text());
      }
      if (message.received == kHeaderBytes + message.header.bytes) peer.in.pop();
    }
  }

  // False: nothing is there now.
  bool receive_rest(SocketPeer& peer, int rank, Incoming& message) {
    const bool in_header = message.received < kHeaderBytes;
    std::byte* to =
        in_header ? std::as_writable_bytes(std::span(&message.came, 1)).data() + message.received
                  : message.to + (message.received - kHeaderBytes);
    const int64_t left = kHeaderBytes + (in_header ? 0 : message.header.bytes) - message.received;
    const ssize_t got = recv(peer.link.data.fd(), to, static_cast<size_t>(left), 0);
    if (got < 0 && errno == EINTR) return true;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (got <= 0) gone(peer, rank, message.header);
    message.received += got;
    return true;
  }

  // A goodbye, or a failure, which is thrown. False: it ended without either.
  static bool read_control(SocketPeer& peer) {
    std::string words;
    const tcp::Deadline deadline = tcp::after(kWaitForWords_s);
    char letter = 0;
    while (words.size() < kMostWords &&
           tcp::receive_all(peer.link.control, std::as_writable_bytes(std::span(&letter, 1)),
                            deadline)) {
      if (letter == kGoodbye && words.empty()) return peer.left = true;
      if (letter == kEnd) break;
      words += letter;
    }
    if (words.starts_with(kFailed)) throw device_error("{}", words.substr(1));
    return false;
  }

  // The data of a peer has ended. Why is said over `control`, perhaps a moment later.
  [[noreturn]] void gone(SocketPeer& peer, int rank, const MessageHeader& header) {
    if (!peer.left && !read_control(peer)) throw died(rank);
    throw device_error("{}: rank {} has left the group while rank {} is in {}", name_, rank, rank_,
                       header.text());
  }

  Error died(int rank) {
    return device_error("{}: rank {} is gone: its connection ended while rank {} was in {}", name_,
                        rank, rank_, waited_for().text());
  }

  // The first call that has not ended, or the last one.
  MessageHeader waited_for() {
    MessageHeader out = last_;
    for_peers([&](SocketPeer& peer, int) {
      if (!peer.out.empty()) out = peer.out.front().header;
    });
    for_peers([&](SocketPeer& peer, int) {
      if (!peer.in.empty()) out = peer.in.front().header;
    });
    return out;
  }

  // Never blocks: what it says is small, and nothing else is on its way.
  static void say(SocketPeer& peer, std::string_view words) {
    tcp::send_all(peer.link.control, std::as_bytes(std::span(words)), {});
  }

  void fail(std::string_view why) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why.empty() ? "a rank has failed" : why;
  }
  void throw_failure() {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw device_error("{}", failure_);
  }

  int rank_;
  std::string name_;
  std::vector<SocketPeer> peers_;  // by rank
  bool grouped_ = false;
  MessageHeader last_;  // of the last call
  std::vector<pollfd> entries_;
  tcp::Socket wake_;  // an event: this rank's own abort
  std::mutex mutex_;  // of failure_: abort comes from any thread
  std::string failure_;
  std::atomic<bool> told_ = false;  // the other ranks, that this one aborts
};

}  // namespace

std::unique_ptr<Communicator> socket_group(Bootstrap& bootstrap, std::string_view name,
                                           const MeshSettings& settings) {
  return std::make_unique<SocketEnd>(socket_mesh(bootstrap, name, settings), bootstrap.rank(),
                                     name);
}

}  // namespace snug
