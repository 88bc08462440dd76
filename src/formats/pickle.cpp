#include "formats/pickle.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace snug {

std::string_view words_of(PickleKind kind) {
  switch (kind) {
    case PickleKind::none:
      return "None";
    case PickleKind::boolean:
      return "a boolean";
    case PickleKind::integer:
      return "an integer";
    case PickleKind::real:
      return "a float";
    case PickleKind::text:
      return "a string";
    case PickleKind::bytes:
      return "bytes";
    case PickleKind::list:
      return "a list";
    case PickleKind::tuple:
      return "a tuple";
    case PickleKind::dict:
      return "a dict";
  }
  return "nothing known";
}

namespace {

// A bit of an integer's payload: is it the place in a table of those that do not fit?
constexpr uint64_t kInTable = uint64_t{1} << 59;

Error not_a(std::string_view file, PickleKind wanted, PickleKind found) {
  return bad_input("{}: {} is where {} should be", file, words_of(found), words_of(wanted));
}

}  // namespace

int64_t Pickle::integer(PickleValue value) const {
  if (!value.is(PickleKind::integer)) throw not_a(name_, PickleKind::integer, value.kind());
  const uint64_t payload = value.payload();
  if ((payload & kInTable) != 0) return integers_[payload & ~kInTable];
  // 59 bits with their sign.
  return static_cast<int64_t>(payload << 5) >> 5;
}

double Pickle::real(PickleValue value) const {
  if (value.is(PickleKind::integer)) return static_cast<double>(integer(value));
  if (!value.is(PickleKind::real)) throw not_a(name_, PickleKind::real, value.kind());
  return reals_[value.payload()];
}

bool Pickle::boolean(PickleValue value) const {
  if (!value.is(PickleKind::boolean)) throw not_a(name_, PickleKind::boolean, value.kind());
  return value.payload() != 0;
}

std::string_view Pickle::text(PickleValue value) const {
  if (!value.is(PickleKind::text)) throw not_a(name_, PickleKind::text, value.kind());
  return texts_[value.payload()];
}

std::string_view Pickle::bytes(PickleValue value) const {
  if (!value.is(PickleKind::bytes)) throw not_a(name_, PickleKind::bytes, value.kind());
  return texts_[value.payload()];
}

std::span<const PickleValue> Pickle::items(PickleValue value) const {
  if (!value.is(PickleKind::list) && !value.is(PickleKind::tuple))
    throw not_a(name_, PickleKind::list, value.kind());
  return containers_[value.payload()];
}

std::span<const PickleValue> Pickle::pairs(PickleValue value) const {
  if (!value.is(PickleKind::dict)) throw not_a(name_, PickleKind::dict, value.kind());
  return containers_[value.payload()];
}

PickleValue Pickle::find(PickleValue dict, std::string_view key) const {
  const std::span<const PickleValue> all = pairs(dict);
  for (size_t i = all.size(); i >= 2; i -= 2) {
    const PickleValue name = all[i - 2];
    if (name.is(PickleKind::text) && texts_[name.payload()] == key) return all[i - 1];
  }
  return {};
}

}  // namespace snug
