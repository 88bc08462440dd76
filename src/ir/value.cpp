#include "ir/value.h"

#include <algorithm>

#include <array>

namespace snug {
namespace {

constexpr std::array<std::string_view, kCategories> kCategoryNames{
    "params",  "master",    "grads", "optimizer", "activations", "recompute",
    "buffers", "workspace", "comm",  "staging",   "inputs"};
constexpr std::array<std::string_view, kSpaces> kSpaceNames{"device", "host", "disk"};
constexpr std::array<std::string_view, 3> kScopeNames{"local", "step", "persistent"};
constexpr std::array<std::string_view, 7> kRoleNames{"none",     "matrix", "embedding", "head",
                                                     "position", "norm",   "bias"};
constexpr std::array<std::string_view, kStoredKinds> kStoredNames{
    "plain", "nf4_codes", "nf4_scales", "int8_codes", "int8_scales"};

template <typename E, size_t N>
std::optional<E> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Category c) { return kCategoryNames[static_cast<size_t>(c)]; }
std::string_view name_of(Space s) { return kSpaceNames[static_cast<size_t>(s)]; }
std::string_view name_of(Scope s) { return kScopeNames[static_cast<size_t>(s)]; }
std::string_view name_of(Role r) { return kRoleNames[static_cast<size_t>(r)]; }
std::string_view name_of(Stored s) { return kStoredNames[static_cast<size_t>(s)]; }
std::optional<Space> parse_space(std::string_view n) { return find_name<Space>(kSpaceNames, n); }

int64_t Value::elements_in_whole() const {
  const int64_t mine = type.shape.elements();
  if (shard_of.rank() == 0) return mine;
  return std::clamp<int64_t>(shard_of.elements() - shard_first, 0, mine);
}

int64_t Value::storage_bytes() const {
  return padded.rank() == 0 ? type.bytes() : Type{type.dtype, padded}.bytes();
}

}  // namespace snug
