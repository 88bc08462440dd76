#include "comm/job_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"

namespace snug {
namespace {

constexpr uint64_t kTextLimit = 1 << 20;  // bytes of one rank's text

// A rank that advances says so, but not after every op.
constexpr std::chrono::milliseconds kNewsInterval{200};

auto seconds_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

double limit_from(const Lookup& variable, const char* name, double otherwise) {
  const char* text = variable(name);
  if (text == nullptr) return otherwise;
  double value = 0;
  if (!read_number(std::string_view(text), value) || !(value > 0) || value > 1e9)
    throw usage_error("the environment's {} is '{}', not a number of seconds", name, text);
  return value;
}

int64_t number_in(const std::string& text) {
  int64_t out = 0;
  if (!read_number(text, out)) throw bad_input("'{}' is no number", printable(text));
  return out;
}

JobFailure failure_in(const Frame& frame) {
  const std::vector<std::string> fields = frame.fields(3);
  const int64_t code = number_in(fields[0]);
  return {code > 0 && code <= 5 ? static_cast<ExitCode>(code) : ExitCode::device, fields[1],
          fields[2]};
}

std::vector<std::string> fields_of(const JobFailure& failure) {
  return {fmt::format("{}", static_cast<int>(failure.code)), failure.sentence, failure.hint};
}

std::vector<std::string> fields_of(const JobPosition& at) {
  return {fmt::format("{}", at.step), fmt::format("{}", at.part), at.doing};
}

}  // namespace

JobLimits job_limits(const Lookup& variable) {
  JobLimits out;
  out.join = limit_from(variable, "SNUG_JOB_TIMEOUT", out.join);
  out.silence = limit_from(variable, "SNUG_JOB_SILENCE", out.silence);
  out.behind = limit_from(variable, "SNUG_JOB_BEHIND", out.behind);
  return out;
}

JobWatch::JobWatch(int rank, Joined joined, const JobLimits& limits)
    : rank_(rank), limits_(limits), hosts_(std::move(joined.hosts)), peers_(hosts_.size()) {
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) throw internal_error("no eventfd: {}", std::strerror(errno));
  woke_ = Clock::now();
  for (size_t r = 0; r < joined.lines.size(); ++r) peers_[r].line = std::move(joined.lines[r]);
  for (Peer& peer : peers_) peer.heard = peer.moved = woke_;
}

JobWatch::~JobWatch() { ::close(wake_fd_); }

void JobWatch::start() {
  std::thread([self = shared_from_this()] { self->run(); }).detach();
}

void JobWatch::run() {
  while (true) {
    wait_for_events(limits_.silence / 6);
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    const Clock::time_point now = Clock::now();
    if (now - woke_ > seconds_of(limits_.silence / 2))  // this process was stopped itself
      for (Peer& peer : peers_) peer.heard = peer.moved = now;
    woke_ = now;
    handle_lines();
    send_beats();
    complete_exchange();
    complete_leaving();
    check_silence();
    check_behind();
    settle_failures();
    for (Peer& peer : peers_)
      if (peer.line) peer.line.flush();
    changed_.notify_all();
    if (ended_ || stopped_) break;
  }
  if (ended_) end_process();
}

void JobWatch::wait_for_events(double seconds) {
  std::vector<pollfd> entries{{.fd = wake_fd_, .events = POLLIN, .revents = 0}};
  Clock::time_point until = Clock::now() + seconds_of(seconds);
  {
    const std::lock_guard lock(mutex_);
    if (settle_at_) until = std::min(until, *settle_at_);
    for (const Peer& peer : peers_) {
      const short events = peer.line.has_unsent() ? POLLIN | POLLOUT : POLLIN;
      if (peer.line) entries.push_back({.fd = peer.line.fd(), .events = events, .revents = 0});
    }
  }
  poll(entries.data(), entries.size(), tcp::poll_ms(until));
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(wake_fd_, &count, sizeof(count));
}

void JobWatch::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

void JobWatch::handle_lines() {
  for (size_t r = 0; r < peers_.size() && !ended_; ++r) {
    Peer& peer = peers_[r];
    if (!peer.line) continue;
    const bool open = peer.line.read();
    try {
      const uint64_t limit = is_hub() ? kTextLimit : (kTextLimit + 64) * peers_.size();
      while (const std::optional<Frame> frame = peer.line.next(limit)) {
        peer.heard = Clock::now();
        is_hub() ? handle_at_hub(r, *frame) : handle_at_rank(*frame);
        if (ended_) return;
      }
    } catch (const Error& error) {
      peer.line.close();
      fail_by(r, fmt::format("sends what is no message: {}", error.what()));
      return;
    }
    if (!open) lost(r);
  }
}

void JobWatch::handle_at_hub(size_t rank, const Frame& frame) {
  Peer& peer = peers_[rank];
  if (frame.kind == FrameKind::beat) {
    std::vector<std::string> fields = frame.fields(3);
    const JobPosition at{number_in(fields[0]), number_in(fields[1]), printable(fields[2])};
    if (at != peer.at) peer.moved = Clock::now();
    peer.at = at;
  } else if (frame.kind == FrameKind::offer) {
    if (peer.offer) throw bad_input("two texts for one exchange");
    peer.offer = frame.fields(1)[0];
  } else if (frame.kind == FrameKind::failure) {
    peer.failure = failure_in(frame);
  } else if (frame.kind == FrameKind::goodbye) {
    peer.left = true;
  } else {
    throw bad_input("a message that only rank 0 sends");
  }
}

void JobWatch::handle_at_rank(const Frame& frame) {
  if (frame.kind == FrameKind::all) {
    exchanged_ = frame.fields(peers_.size());
  } else if (frame.kind == FrameKind::end) {
    end(failure_in(frame), /*say=*/false);
  } else if (frame.kind == FrameKind::goodbye) {
    all_left_ = stopped_ = true;
  } else if (frame.kind == FrameKind::beat) {
    peers_[0].at.doing = printable(frame.fields(3)[2]);
  } else {
    throw bad_input("a message that rank 0 does not send");
  }
}

// The connection is closed.
void JobWatch::lost(size_t rank) {
  Peer& peer = peers_[rank];
  peer.line.close();
  if (peer.left || peer.failure) return;  // it said so
  if (is_hub()) {
    peer.died = true;
  } else if (me().left) {
    all_left_ = stopped_ = true;
  } else {
    fail_by(0, "died: its connection closed");
  }
}

void JobWatch::send_beats() {
  const Clock::time_point now = Clock::now();
  const bool news = me().at != beaten_at_ && now - beaten_ >= kNewsInterval;
  if (!news && now - beaten_ < seconds_of(limits_.silence / 6.5)) return;
  beaten_ = now;
  beaten_at_ = me().at;
  for (Peer& peer : peers_)
    if (peer.line && !peer.line.has_unsent()) peer.line.post(FrameKind::beat, fields_of(me().at));
}

void JobWatch::complete_exchange() {
  if (!is_hub()) return;
  const auto offers =
      std::ranges::count_if(peers_, [](const Peer& p) { return p.offer.has_value(); });
  if (offers == 0) return;
  if (offers == std::ssize(peers_)) {
    std::vector<std::string> all;
    for (Peer& peer : peers_) all.push_back(*std::exchange(peer.offer, std::nullopt));
    for (Peer& peer : peers_)
      if (peer.line) peer.line.post(FrameKind::all, all);
    exchanged_ = std::move(all);
    return;
  }
  for (size_t r = 0; r < peers_.size(); ++r)
    if (peers_[r].left) return fail_by(r, "has ended its work, and others wait for it");
}

void JobWatch::complete_leaving() {
  if (!is_hub() || !std::ranges::all_of(peers_, [](const Peer& p) { return p.left; })) return;
  for (Peer& peer : peers_) {
    if (!peer.line) continue;
    peer.line.post(FrameKind::goodbye, std::initializer_list<std::string>{});
    peer.line.flush_until(tcp::after(1));
  }
  all_left_ = stopped_ = true;
}

void JobWatch::check_silence() {
  for (size_t r = 0; r < peers_.size() && !ended_; ++r) {
    const Peer& peer = peers_[r];
    if (!peer.line || peer.left || Clock::now() - peer.heard < seconds_of(limits_.silence))
      continue;
    fail_by(r,
            fmt::format("has given no sign of life for {:g} s: it is stopped, or its host is down",
                        limits_.silence));
  }
}

void JobWatch::check_behind() {
  if (!is_hub() || ended_) return;
  const auto place = [](const Peer& p) { return std::pair(p.at.step, p.at.part); };
  const auto [last, first] = std::ranges::minmax_element(peers_, {}, place);
  if (place(*last) == place(*first) || last->left || last->failure) return;
  if (Clock::now() - last->moved < seconds_of(limits_.behind)) return;
  const JobPosition& ahead = first->at;
  fail_by(static_cast<size_t>(last - peers_.begin()),
          fmt::format("hangs: it has been there for {:g} s, and rank {} is at {}", limits_.behind,
                      first - peers_.begin(), ahead.doing));
}

// Rank 0: which of the failures that have come is the cause, when enough of them are there. One that
// no other rank can have caused goes before a death, and both before failures of communication.
void JobWatch::settle_failures() {
  if (!is_hub() || ended_) return;
  const auto threw = [](const Peer& p) { return p.failure && p.failure->code != ExitCode::device; };
  const auto died = [](const Peer& p) { return p.died; };
  const auto failed = [](const Peer& p) { return p.failure || p.died; };
  const auto count = std::ranges::count_if(peers_, failed);
  if (count == 0) return;
  auto cause = std::ranges::find_if(peers_, threw);
  const double patience = cause != peers_.end()               ? limits_.settle
                          : std::ranges::any_of(peers_, died) ? 0
                                                              : limits_.settle_device;
  const Clock::time_point at = Clock::now() + seconds_of(patience);
  settle_at_ = std::min(settle_at_.value_or(at), at);
  if (count < std::ssize(peers_) && Clock::now() < *settle_at_) return;
  if (cause == peers_.end()) cause = std::ranges::find_if(peers_, died);
  if (cause == peers_.end()) cause = std::ranges::find_if(peers_, failed);
  const auto rank = static_cast<size_t>(cause - peers_.begin());
  if (cause->died) return fail_by(rank, "died: its connection closed");
  const bool alike = std::ranges::all_of(peers_, [&](const Peer& p) {
    return p.failure && p.failure->sentence == cause->failure->sentence;
  });
  JobFailure failure = *cause->failure;
  if (!alike) failure.sentence = fmt::format("{}: {}", name_of(rank), failure.sentence);
  end(failure, /*say=*/true);
}

// Said by rank 0; of rank 0's own end by the first of the others on a host.
void JobWatch::fail_by(size_t rank, const std::string& what_happened) {
  bool say = is_hub();
  if (!is_hub()) {
    say = true;
    for (size_t r = 1; r < static_cast<size_t>(rank_); ++r)
      say = say && hosts_[r].host != hosts_[static_cast<size_t>(rank_)].host;
  }
  end({ExitCode::device, fmt::format("{} {}", name_of(rank), what_happened), ""}, say);
}

std::string JobWatch::name_of(size_t rank) const {
  const std::string& doing = peers_[rank].at.doing;
  return fmt::format("rank {} on {}{}", rank, hosts_[rank].host,
                     doing.empty() ? "" : fmt::format(" ({})", doing));
}

void JobWatch::end(const JobFailure& failure, bool say) {
  if (ended_) return;
  ended_ = failure;
  if (say) {  // before any rank ends: mpirun kills all of them then
    error_line(fmt::format("snug: {}", failure.sentence));
    if (!failure.hint.empty()) error_line(fmt::format("      {}", failure.hint));
  }
  for (Peer& peer : peers_) {
    if (!is_hub() || !peer.line) continue;
    peer.line.post(FrameKind::end, fields_of(failure));
    peer.line.flush();
  }
}

// What waits on the device or on other ranks is called off, then the process has a little time.
void JobWatch::end_process() {
  std::thread([self = shared_from_this()] {
    const std::lock_guard lock(self->call_mutex_);
    if (const auto call = std::exchange(self->on_end_, nullptr)) call(self->ended_->sentence);
  }).detach();
  const tcp::Deadline until = tcp::after(limits_.leave);
  for (Peer& peer : peers_)
    if (is_hub() && peer.line) peer.line.flush_until(std::min(until, tcp::after(0.5)));
  std::this_thread::sleep_until(until);
  _exit(static_cast<int>(ExitCode::device));
}

void JobWatch::throw_failure() const {
  throw Error(ended_->code, ended_->sentence).hint(ended_->hint);
}

std::vector<std::string> JobWatch::exchange(std::string_view mine,
                                            std::optional<tcp::Deadline> until) {
  if (mine.size() > kTextLimit - 64)
    throw internal_error("a text of {} bytes is too long for the other ranks", mine.size());
  std::unique_lock lock(mutex_);
  if (ended_) throw_failure();
  if (is_hub()) {
    me().offer = mine;
  } else {
    peers_[0].line.post(FrameKind::offer, {std::string(mine)});
  }
  wake();
  const auto done = [this] { return exchanged_ || ended_; };
  if (!until) {
    changed_.wait(lock, done);
  } else if (!changed_.wait_until(lock, *until, done)) {
    throw device_error("rank {} timed out waiting for other ranks", rank_);
  }
  if (ended_) throw_failure();
  return *std::exchange(exchanged_, std::nullopt);
}

void JobWatch::progress(int64_t step, int64_t part, std::string_view doing) {
  const std::lock_guard lock(mutex_);
  me().at = {step, part, std::string(doing)};
  const Clock::time_point now = me().moved = Clock::now();
  if (now - beaten_ >= kNewsInterval) wake();
}

void JobWatch::throw_if_ended() {
  const std::lock_guard lock(mutex_);
  if (ended_) throw_failure();
}

void JobWatch::on_end(std::function<void(const std::string&)> call) {
  const std::lock_guard lock(call_mutex_);
  on_end_ = std::move(call);
}

std::optional<ExitCode> JobWatch::report(const JobFailure& failure) {
  std::unique_lock lock(mutex_);
  if (!ended_) {
    JobFailure shortened = failure;
    shortened.sentence.resize(std::min<size_t>(shortened.sentence.size(), 8192));
    shortened.hint.resize(std::min<size_t>(shortened.hint.size(), 8192));
    if (is_hub()) {
      me().failure = shortened;
    } else {
      peers_[0].line.post(FrameKind::beat, fields_of(me().at));
      peers_[0].line.post(FrameKind::failure, fields_of(shortened));
    }
    wake();
  }
  const bool decided = changed_.wait_for(lock, seconds_of(limits_.settle_device + 1),
                                         [this] { return ended_.has_value(); });
  return decided ? std::optional(ended_->code) : std::nullopt;
}

void JobWatch::leave() {
  std::unique_lock lock(mutex_);
  if (ended_) throw_failure();
  me().left = true;
  if (!is_hub()) peers_[0].line.post(FrameKind::goodbye, std::initializer_list<std::string>{});
  wake();
  changed_.wait(lock, [this] { return all_left_ || ended_; });
  if (ended_) throw_failure();
}

void JobWatch::abandon() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;  // the thread ends the process if it does not end by itself
  stopped_ = true;     // the connections are closed when the thread has let go of them
  wake();
}

}  // namespace snug
