// The sentence with which something is refused, or "" when it is not: for tests of bad shapes and
// values.
//
//   EXPECT_THAT(refusal_of([&] { add(b, "sum", x, y); }), HasSubstr("differ"));
#pragma once

#include <string>

#include "base/error.h"

namespace snug {

template <typename Fn>
std::string refusal_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace snug
