#include "base/notes.h"

namespace snug {
namespace {

NoteListener& listener_of_process() {
  static NoteListener listener;
  return listener;
}

}  // namespace

NoteListener tell_notes_to(NoteListener listener) {
  return std::exchange(listener_of_process(), std::move(listener));
}

void note_line(std::string_view text) {
  if (const auto& line = listener_of_process().line) line(text);
}

void note_status(std::string_view text) {
  if (const auto& status = listener_of_process().status) status(text);
}

}  // namespace snug
