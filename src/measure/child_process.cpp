#include "measure/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace snug {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

// Files rather than pipes: whatever a program says, in whatever order, it never waits for a reader.
File nameless_file() {
  File file(std::tmpfile());
  if (!file) throw internal_error("no temporary file: {}", std::strerror(errno));
  return file;
}

std::string text_of(const File& file) {
  std::rewind(file.get());
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t n = std::fread(part.data(), 1, part.size(), file.get()))
    text.append(part.data(), n);
  return text;
}

class Redirections {
 public:
  Redirections(const File& out, const File& err) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, fileno(out.get()), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, fileno(err.get()), STDERR_FILENO);
  }
  ~Redirections() { posix_spawn_file_actions_destroy(&actions_); }
  Redirections(const Redirections&) = delete;
  Redirections& operator=(const Redirections&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

}  // namespace

ChildEnded run_child(const std::vector<std::string>& command) {
  const File out = nameless_file(), err = nameless_file();
  const Redirections redirections(out, err);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = -1;
  const int failure =
      posix_spawnp(&child, words[0], redirections.get(), nullptr, words.data(), environ);
  if (failure != 0)
    throw usage_error("{} cannot be started: {}", command[0], std::strerror(failure));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(out), text_of(err)};
}

}  // namespace snug
