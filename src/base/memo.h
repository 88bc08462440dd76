// Results that are computed once for each key, by the thread that asks first; others that ask
// meanwhile wait for it.
//
//   Memo<Settings, Estimate> known;
//   const Estimate& e = known.of(settings, [&] { return estimate(settings); });
#pragma once

#include <future>
#include <mutex>
#include <unordered_map>

namespace snug {

template <typename Key, typename T, typename Hash = std::hash<Key>>
class Memo {
 public:
  // Lives as long as this. `make` may ask for other keys; what it throws is thrown to all callers.
  template <typename Make>
  const T& of(const Key& key, const Make& make) {
    std::promise<T> promise;
    const auto [result, is_new] = find_or_add(key, promise);
    if (is_new) {
      try {
        promise.set_value(make());
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    }
    return result->get();
  }

 private:
  std::pair<const std::shared_future<T>*, bool> find_or_add(const Key& key,
                                                            std::promise<T>& promise) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) return {&found->second, false};
    return {&known_.emplace(key, promise.get_future().share()).first->second, true};
  }

  std::mutex mutex_;
  std::unordered_map<Key, std::shared_future<T>, Hash> known_;
};

}  // namespace snug
