// JSONL: one JSON object per line, each a sample to train on.
//
//   LineReader lines(FileReader("chat.jsonl"));
//   while (lines.read(16 << 20, batch))
//     for (const Line& line : batch.lines) parse_sample(line.text);
//
// A sample is {"text": ...}, {"prompt": ..., "completion": ...} or {"messages": [{"role": ...,
// "content": ...}, ...]}. Where a line has several of them, messages come before prompt and
// completion, and these before text. Other keys are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/file_reader.h"

namespace snug {

enum class ChatRole : uint8_t { system, user, assistant };
std::string_view name_of(ChatRole role);  // "system", "user", "assistant"

struct ChatMessage {
  ChatRole role = ChatRole::user;
  std::string content;
};

struct JsonSample {
  enum class Kind : uint8_t { text, completion, chat };
  Kind kind = Kind::text;
  std::string text;  // of Kind::completion: the prompt
  std::string completion;
  std::vector<ChatMessage> messages;

  // Nothing to learn: no text, no completion, or no message of the assistant.
  bool is_empty() const;
};

// Throws bad_input, without saying where the line is.
JsonSample parse_sample(std::string_view line);

struct Line {
  int64_t number = 0;  // from 1
  std::string_view text;
};

// Lines of a file in pieces; nothing but the piece is in memory.
class LineReader {
 public:
  explicit LineReader(FileReader file) : file_(std::move(file)) {}

  struct Batch {
    std::vector<Line> lines;  // without those of white space only
    std::string bytes;        // that they point into
  };
  // About so many bytes, and one line at least; false where none is left. Throws bad_input for a
  // line longer than kLongest, and where the file was truncated.
  bool read(int64_t bytes, Batch& batch);

  static constexpr int64_t kLongest = int64_t{1} << 30;

 private:
  bool read_more(int64_t bytes, std::string& into);
  void split_lines(std::string_view text, std::vector<Line>& lines);

  FileReader file_;
  int64_t at_ = 0;
  int64_t line_ = 0;
  std::string rest_;  // the beginning of a line
};

}  // namespace snug
