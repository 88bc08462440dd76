// An op's attributes: few, named, typed; compared and printed in key order.
//
//   Attrs a{{"eps", 1e-5}, {"causal", true}, {"heads", 12}};
//   a.f("eps");   a.b("causal");   a.i("heads");
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace snug {

class AttrValue : public std::variant<bool, int64_t, double, std::string> {
 public:
  AttrValue() = default;
  AttrValue(bool v) : variant(v) {}                    // NOLINT: implicit on purpose, as all below
  AttrValue(double v) : variant(v) {}                  // NOLINT
  AttrValue(std::string s) : variant(std::move(s)) {}  // NOLINT
  template <std::integral T>
  requires(!std::same_as<T, bool>) AttrValue(T v)
      : variant(static_cast<int64_t>(v)) {}                // NOLINT: implicit on purpose
  AttrValue(const char* s) : variant(std::string(s)) {}    // NOLINT: implicit on purpose
  AttrValue(float v) : variant(static_cast<double>(v)) {}  // NOLINT: implicit on purpose
};

class Attrs {
 public:
  using Item = std::pair<std::string, AttrValue>;

  Attrs() = default;
  Attrs(std::initializer_list<Item> items) {
    for (const Item& item : items) set(item.first, item.second);
  }

  void set(std::string key, AttrValue value);
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Each throws an internal error naming the key when it is absent or of another type; the second
  // form has a default.
  int64_t i(std::string_view key) const;
  double f(std::string_view key) const;
  bool b(std::string_view key) const;
  const std::string& s(std::string_view key) const;
  int64_t i(std::string_view key, int64_t otherwise) const { return has(key) ? i(key) : otherwise; }
  double f(std::string_view key, double otherwise) const { return has(key) ? f(key) : otherwise; }
  bool b(std::string_view key, bool otherwise) const { return has(key) ? b(key) : otherwise; }

  bool empty() const { return items_.empty(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  const AttrValue* find(std::string_view key) const;
  std::vector<Item> items_;  // sorted by key
};

}  // namespace snug
