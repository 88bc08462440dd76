#include "comm/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "comm/job_place.h"
#include "comm/rendezvous.h"
#include "comm/tcp.h"

namespace snug {
namespace {

constexpr int kListenerFd = 3;  // what rank 0 knows its socket by
constexpr size_t kKeptLines = 12;
constexpr int kLookAgainMs = 200;  // for ranks that have ended: another thread may have got SIGCHLD

// What a rank prints, line by line: shown after its name, or its last lines kept.
class RankOutput {
 public:
  RankOutput(int rank, bool show, bool results) : rank_(rank), show_(show), results_(results) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw internal_error("no pipe for rank {}: {}", rank, std::strerror(errno));
    read_ = tcp::Socket(ends[0]);
    write_ = tcp::Socket(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }

  int read_fd() const { return read_.fd(); }
  int write_fd() const { return write_.fd(); }
  void close_write() { write_ = {}; }
  const std::deque<std::string>& last_lines() const { return lines_; }

  // What is there; at the end the rest of a line, too.
  void drain() {
    std::array<char, 4096> part;
    ssize_t got = 0;
    while (read_ && (got = ::read(read_.fd(), part.data(), part.size())) > 0) {
      pending_.append(part.data(), static_cast<size_t>(got));
      for (size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
        take(pending_.substr(0, end));
        pending_.erase(0, end + 1);
      }
      if (pending_.size() > 65'536) take(std::exchange(pending_, {}));
    }
    if (got != 0) return;
    read_ = {};
    if (!pending_.empty()) take(std::exchange(pending_, {}));
  }

 private:
  void take(const std::string& line) {
    if (show_) {
      const std::string text = fmt::format("[rank {}] {}", rank_, line);
      results_ ? print_text(text + "\n") : error_line(text);
      if (results_) flush_results();
      return;
    }
    lines_.push_back(line);
    if (lines_.size() > kKeptLines) lines_.pop_front();
  }

  int rank_;
  bool show_, results_;
  tcp::Socket read_, write_;  // as owners of the descriptors
  std::string pending_;
  std::deque<std::string> lines_;
};

struct LaunchedRank {
  pid_t pid = -1;
  std::optional<RankOutput> out, err;
  std::optional<int> status;  // as waitpid gives it; none: it runs

  bool failed() const { return status && *status != 0; }
  bool ended_itself() const { return status && WIFEXITED(*status); }
};

std::string how_it_ended(const LaunchedRank& rank) {
  if (rank.ended_itself()) return fmt::format("ended with exit code {}", WEXITSTATUS(*rank.status));
  const int signal = WTERMSIG(*rank.status);
  return fmt::format("was ended by signal {} ({})", signal, strsignal(signal));
}

// Words for posix_spawn.
std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

class Launcher {
 public:
  Launcher(const Launch& launch, const HeldSignals& signals)
      : launch_(launch),
        signals_(signals),
        ranks_(static_cast<size_t>(launch.ranks)),
        signal_fd_(signalfd(-1, &signals.held(), SFD_NONBLOCK | SFD_CLOEXEC)) {
    std::signal(SIGTTOU, SIG_IGN);  // ranks write to the terminal from a process group of their own
  }
  ~Launcher() {
    for (LaunchedRank& rank : ranks_)
      if (rank.pid > 0 && !rank.status) ::kill(rank.pid, SIGKILL);
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  int run() {
    start_all();
    while (std::ranges::any_of(ranks_, [](const LaunchedRank& r) { return !r.status; })) {
      wait_for_events();
      take_signals();
      reap();
      drain_all();
      if (give_up_at_ && tcp::poll_ms(*give_up_at_) == 0) kill_the_rest();
    }
    drain_all();
    if (first_ < 0) return 0;
    const LaunchedRank& first = ranks_[static_cast<size_t>(first_)];
    if (first.ended_itself()) {
      say_why();
      return WEXITSTATUS(*first.status);
    }
    if (passed_on_ == WTERMSIG(*first.status)) end_by(passed_on_);
    say_why();
    return static_cast<int>(ExitCode::device);
  }

 private:
  void start_all() {
    const tcp::Listener listener = listen_for_ranks();
    const std::string token = random_token();
    for (int r = 0; r < launch_.ranks; ++r) {
      LaunchedRank& rank = ranks_[static_cast<size_t>(r)];
      if (launch_.show_all) rank.out.emplace(r, /*show=*/true, /*results=*/true);
      if (launch_.show_all || r > 0) rank.err.emplace(r, launch_.show_all, /*results=*/false);
      start(r, rank, listener, token);
      if (rank.out) rank.out->close_write();
      if (rank.err) rank.err->close_write();
    }
  }

  std::vector<std::string> environment_of(int rank, int port, const std::string& token) const {
    std::vector<std::string> out{fmt::format("RANK={}", rank),
                                 fmt::format("WORLD_SIZE={}", launch_.ranks),
                                 fmt::format("LOCAL_RANK={}", rank),
                                 "MASTER_ADDR=127.0.0.1",
                                 fmt::format("MASTER_PORT={}", port),
                                 fmt::format("{}={}", kTokenVariable, token),
                                 fmt::format("{}={}", kLauncherVariable, getpid())};
    if (rank == 0) out.push_back(fmt::format("{}={}", kListenerVariable, kListenerFd));
    out.insert(out.end(), launch_.environment.begin(), launch_.environment.end());
    const size_t ours = out.size();
    for (char** one = environ; *one != nullptr; ++one) {
      const std::string_view text = *one;
      const std::string_view name = text.substr(0, text.find('=') + 1);
      const bool said = std::any_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(ours),
                                    [&](const std::string& o) { return o.starts_with(name); });
      if (!said) out.emplace_back(text);
    }
    return out;
  }

  void start(int r, LaunchedRank& rank, const tcp::Listener& listener, const std::string& token) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (rank.out) {
      posix_spawn_file_actions_adddup2(&files, rank.out->write_fd(), STDOUT_FILENO);
    } else if (r > 0) {
      posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    }
    if (rank.err) posix_spawn_file_actions_adddup2(&files, rank.err->write_fd(), STDERR_FILENO);
    if (r == 0) posix_spawn_file_actions_adddup2(&files, listener.socket.fd(), kListenerFd);
    // A group of its own: Ctrl-C of a terminal reaches the launcher alone, which passes it on once.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &signals_.mask_before());
    const std::vector<std::string> environment = environment_of(r, listener.port, token);
    const int failure =
        posix_spawn(&rank.pid, launch_.command[0].c_str(), &files, &attributes,
                    pointers_to(launch_.command).data(), pointers_to(environment).data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (failure != 0)
      throw device_error("rank {} cannot be started: {}", r, std::strerror(failure));
  }

  void wait_for_events() {
    std::vector<pollfd> entries{{.fd = signal_fd_.fd(), .events = POLLIN, .revents = 0}};
    for (const LaunchedRank& rank : ranks_)
      for (const auto* output : {&rank.out, &rank.err})
        if (*output && (*output)->read_fd() >= 0)
          entries.push_back({.fd = (*output)->read_fd(), .events = POLLIN, .revents = 0});
    const int most = give_up_at_ ? tcp::poll_ms(*give_up_at_) : kLookAgainMs;
    poll(entries.data(), entries.size(), std::min(most, kLookAgainMs));
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signal_fd_.fd(), &info, sizeof(info)) == sizeof(info)) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      if (signal == SIGTSTP) {  // all of them stop, and continue together
        send_all(SIGSTOP);
        ::raise(SIGSTOP);
        send_all(SIGCONT);
        continue;
      }
      passed_on_ = signal;
      send_all(signal);
    }
  }

  void send_all(int signal) const {
    for (const LaunchedRank& rank : ranks_)
      if (!rank.status) ::kill(rank.pid, signal);
  }

  void reap() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      LaunchedRank& rank = ranks_[r];
      int status = 0;
      if (rank.status || ::waitpid(rank.pid, &status, WNOHANG) != rank.pid) continue;
      rank.status = status;
      if (!rank.failed() || first_ >= 0) continue;
      first_ = static_cast<int>(r);
      give_up_at_ = tcp::after(launch_.grace);
    }
  }

  void drain_all() {
    for (LaunchedRank& rank : ranks_)
      for (auto* output : {&rank.out, &rank.err})
        if (*output) (*output)->drain();
  }

  void kill_the_rest() {
    send_all(SIGKILL);
    give_up_at_.reset();
  }

  // Rank 0 has said why, or the first of the others that did; how a rank ended is known here alone.
  void say_why() const {
    const LaunchedRank& first = ranks_[static_cast<size_t>(first_)];
    const LaunchedRank* voice =
        ranks_[0].ended_itself() && ranks_[0].failed() ? &ranks_[0] : nullptr;
    if (voice == nullptr) {
      for (const LaunchedRank& rank : ranks_) {
        if (!rank.ended_itself() || !rank.err || rank.err->last_lines().empty()) continue;
        voice = &rank;
        for (const std::string& line : rank.err->last_lines()) error_line(line);
        break;
      }
    }
    if (voice == nullptr) {
      error_line(fmt::format("snug: rank {} {}", first_, how_it_ended(first)));
    } else if (!first.ended_itself()) {
      error_line(fmt::format("      rank {} {}", first_, how_it_ended(first)));
    }
    if (&first == voice || !first.err || first.err->last_lines().empty()) return;
    error_line(fmt::format("      the last lines of rank {}:", first_));
    for (const std::string& line : first.err->last_lines()) error_line("      | " + line);
  }

  [[noreturn]] static void end_by(int signal) {
    flush_results();
    std::signal(signal, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
    ::raise(signal);
    _exit(128 + signal);
  }

  const Launch& launch_;
  const HeldSignals& signals_;
  std::vector<LaunchedRank> ranks_;
  tcp::Socket signal_fd_;
  int first_ = -1;  // the rank that failed first
  int passed_on_ = 0;
  std::optional<tcp::Deadline> give_up_at_;
};

}  // namespace

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD}) sigaddset(&held_, signal);
  pthread_sigmask(SIG_BLOCK, &held_, &mask_before_);
}
HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr); }

int launch(const Launch& launch, const HeldSignals& signals) {
  return Launcher(launch, signals).run();
}

void end_with_launcher() {
  const char* text = std::getenv(kLauncherVariable);
  pid_t launcher = 0;
  if (text == nullptr || !read_number(std::string_view(text), launcher)) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(static_cast<int>(ExitCode::device));  // it is gone already
}

}  // namespace snug
