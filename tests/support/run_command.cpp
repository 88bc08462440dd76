#include "support/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/error.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

// What the child writes to, and where we read it.
struct Channel {
  int read_end = -1, write_end = -1;
};

Channel open_channel(bool terminal) {
  std::array<int, 2> ends{};
  const int failure =
      terminal ? ::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) : ::pipe(ends.data());
  if (failure != 0) throw internal_error("cannot open a channel to a child process");
  ::fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  return {ends[0], ends[1]};
}

// A child does not search for leaks, which would take 4 s of each of a job's processes; tests/CMakeLists.txt says which do.
void leave_leaks() {
  if (const char* options = std::getenv("ASAN_OPTIONS")) {
    ::setenv("ASAN_OPTIONS", (std::string(options) + ":detect_leaks=0").c_str(), /*overwrite=*/1);
  }
}

[[noreturn]] void become(const std::vector<std::string>& command, const RunOptions& options,
                         int out, int err) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (options.address_space > 0) {
    const auto bytes = static_cast<rlim_t>(options.address_space);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  leave_leaks();
  for (const auto& [name, value] : options.environment)
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  if (::chdir(options.directory.c_str()) == 0) ::execvp(argv[0], argv.data());
  ::_exit(127);
}

// Appends what has arrived; false at the end of the channel (a terminal ends with EIO).
bool drain(int from, std::string& to) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(from, buffer.data(), buffer.size());
  if (count > 0) to.append(buffer.data(), static_cast<size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

// Reads both channels to their ends, or to the deadline.
void listen(pid_t child, const RunOptions& options, int out, int err, Ended& ended) {
  const auto deadline = Clock::now() + options.limit;
  bool interrupted = options.interrupt_after.empty();
  bool interrupted_again = options.interrupt_again.empty();
  std::array<pollfd, 2> channels{pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  while ((channels[0].fd >= 0 || channels[1].fd >= 0) && Clock::now() < deadline) {
    ::poll(channels.data(), channels.size(), /*milliseconds=*/100);
    if (channels[0].revents != 0 && !drain(out, ended.out)) channels[0].fd = -1;
    if (channels[1].revents != 0 && !drain(err, ended.err)) channels[1].fd = -1;
    if (!interrupted && ended.out.find(options.interrupt_after) != std::string::npos) {
      if (options.before_interrupt) options.before_interrupt(child);
      ::kill(child, SIGINT);
      interrupted = true;
    }
    if (!interrupted_again && ended.err.find(options.interrupt_again) != std::string::npos) {
      ::kill(child, SIGINT);
      interrupted_again = true;
    }
  }
  if (Clock::now() >= deadline) ::kill(child, SIGKILL);
}

}  // namespace

Ended run_command(const std::vector<std::string>& command, const RunOptions& options) {
  const Channel out = open_channel(options.terminal);
  const Channel err = options.terminal ? out : open_channel(false);
  const pid_t child = ::fork();
  if (child == 0) become(command, options, out.write_end, err.write_end);
  ::close(out.write_end);
  if (!options.terminal) ::close(err.write_end);

  Ended ended;
  listen(child, options, out.read_end, options.terminal ? -1 : err.read_end, ended);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(out.read_end);
  if (!options.terminal) ::close(err.read_end);
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

std::string snug_binary() { return SNUG_BINARY; }

Ended run_snug(std::vector<std::string> arguments, const RunOptions& options) {
  arguments.insert(arguments.begin(), snug_binary());
  return run_command(arguments, options);
}

Ended run_snug_in_shell(const std::string& line, std::vector<std::string> arguments,
                        const RunOptions& options) {
  arguments.insert(arguments.begin(), {"sh", "-c", line, "sh", snug_binary()});
  return run_command(arguments, options);
}

}  // namespace snug
