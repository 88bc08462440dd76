#include "faults/watched_calls.h"

#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace snug::testing {
namespace {

Watch* watching = nullptr;

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const std::string relative = path.lexically_relative(folder).string();
  return !relative.empty() && !relative.starts_with("..");
}

}  // namespace

Watch::Watch(const std::filesystem::path& folder, Faults faults)
    : folder_(std::filesystem::canonical(folder)), faults_(faults) {
  if (std::exchange(watching, this) != nullptr) throw internal_error("two watches at once");
}

Watch::~Watch() { watching = nullptr; }

WatchedCall::WatchedCall(const char* name, const std::vector<std::filesystem::path>& paths) {
  if (watching == nullptr) return;
  for (const std::filesystem::path& path : paths)
    if (!is_below(path, watching->folder_)) return;
  begin(name, paths);
}

WatchedCall::WatchedCall(const char* name, int fd) {
  if (watching == nullptr) return;
  const std::unique_lock lock(watching->mutex_);
  const auto file = watching->files_.find(fd);
  if (file == watching->files_.end()) return;
  begin(name, {file->second.first});
  node_ = file->second.second;
}

void WatchedCall::begin(const char* name, const std::vector<std::filesystem::path>& paths) {
  watch_ = watching;
  lock_ = std::unique_lock(watch_->mutex_);
  is_write_ = std::string_view(name) == "write";
  std::string text = name;
  for (const std::filesystem::path& path : paths)
    text += " " + path.lexically_relative(watch_->folder_).string();
  watch_->calls_.push_back(std::move(text));
}

bool WatchedCall::fails() {
  if (!watched()) return false;
  Faults& faults = watch_->faults_;
  const auto number = static_cast<int64_t>(watch_->calls_.size());
  if (number == faults.failing && faults.with != 0) {
    errno = faults.with;
    return true;
  }
  if (faults.failing == 0 || number <= faults.failing || !is_write_ || faults.next_write == 0)
    return false;
  errno = std::exchange(faults.next_write, 0);
  return true;
}

size_t WatchedCall::shortened(size_t bytes) const {
  if (!watched()) return bytes;
  const Faults& faults = watch_->faults_;
  const bool half = std::cmp_equal(watch_->calls_.size(), faults.failing) && faults.with == 0;
  return half && bytes > 1 ? bytes / 2 : bytes;
}

void WatchedCall::opened(int fd) {
  if (watching == nullptr || fd < 0) return;
  const std::unique_lock lock(watching->mutex_);
  watching->files_.erase(fd);  // closed by what is not interposed
  if (!watched()) return;
  const std::string& text = watch_->calls_.back();
  watch_->files_[fd] = {watch_->folder_ / text.substr(text.find(' ') + 1), -1};
}

void WatchedCall::is_node(int fd, int node) { watch_->files_.at(fd).second = node; }

void WatchedCall::closed(int fd) {
  if (watching == nullptr) return;
  const std::unique_lock lock(watching->mutex_);
  watching->files_.erase(fd);
}

void WatchedCall::end() const {
  if (std::cmp_equal(watch_->calls_.size(), watch_->faults_.last)) ::_exit(kKilled);
}

}  // namespace snug::testing
