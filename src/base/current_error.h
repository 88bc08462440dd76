// Whatever was thrown, as an Error: its sentence and the exit code that it becomes.
//
//   } catch (...) {
//     const Error error = current_error();
#pragma once

#include <exception>
#include <filesystem>
#include <new>

#include "base/error.h"

namespace snug {

// Inside a catch clause only.
inline Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return does_not_fit("the system has no memory left for the program itself");
  } catch (const std::filesystem::filesystem_error& error) {
    return bad_input("{}: {}", error.path1().string(), error.code().message());
  } catch (const std::exception& error) {
    return internal_error("internal error: {}", error.what());
  } catch (...) {
    return internal_error("internal error: something that is no error was thrown");
  }
}

}  // namespace snug
