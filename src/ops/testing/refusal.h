// The sentence with which an op's own rules refuse something, or "" when they do not: for tests of
// bad shapes and values. Other errors (an internal one, a device's) are no refusals and pass
// through.
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
    if (e.code() != ExitCode::usage) throw;
    return e.what();
  }
  return "";
}

}  // namespace snug
