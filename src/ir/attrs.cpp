#include "ir/attrs.h"

#include <algorithm>

#include "base/error.h"

namespace snug {
namespace {

template <typename T>
const T& get(const AttrValue* value, std::string_view key) {
  if (value == nullptr) throw internal_error("attribute '{}' is missing", key);
  if (const T* v = std::get_if<T>(value)) return *v;
  throw internal_error("attribute '{}' has another type than asked for", key);
}

}  // namespace

const AttrValue* Attrs::find(std::string_view key) const {
  for (const Item& item : items_) {
    if (item.first == key) return &item.second;
  }
  return nullptr;
}

void Attrs::set(std::string key, AttrValue value) {
  auto at = std::lower_bound(items_.begin(), items_.end(), key,
                             [](const Item& a, const std::string& k) { return a.first < k; });
  if (at != items_.end() && at->first == key) {
    at->second = std::move(value);
  } else {
    items_.insert(at, {std::move(key), std::move(value)});
  }
}

int64_t Attrs::i(std::string_view key) const { return get<int64_t>(find(key), key); }
double Attrs::f(std::string_view key) const { return get<double>(find(key), key); }
bool Attrs::b(std::string_view key) const { return get<bool>(find(key), key); }
const std::string& Attrs::s(std::string_view key) const { return get<std::string>(find(key), key); }

}  // namespace snug
