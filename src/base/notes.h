// Messages of code below the reports to a person. That code prints nothing: the program, such as
// the command line, says where notes go.
//
//   tell_notes_to({.line = log_line, .status = show_status});   // in main()
//   note("{} is gone: the model is saved without its tokenizer", path);
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace snug {

// Any thread may call these.
struct NoteListener {
  std::function<void(std::string_view)> line;
  std::function<void(std::string_view)> status;  // replaced by whatever comes next
};
// Returns the listener of before; at first there is none, and notes go nowhere. To be called while
// nothing runs.
NoteListener tell_notes_to(NoteListener listener);

void note_line(std::string_view text);
void note_status(std::string_view text);

template <typename... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  note_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace snug
