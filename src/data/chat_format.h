// How a model's family writes a conversation: the string that transformers' apply_chat_template
// makes of it, and which parts of it are to be learned.
//
//   const ChatFormat format = chat_format_of(model);      // "chatml", "llama3", "gemma", "mistral"
//   const Rendered chat = format.render(messages);
//   chat.text;      // "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n"
//
// A family is known by its special tokens and, where the model has a chat_template, by how that
// writes a turn. Templates are not run; one that is not known is refused (docs/formats.md).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json_lines.h"

namespace snug {

class Tokenizer;

// A sample as text. Its tokens are those of the whole text.
struct Rendered {
  struct Span {
    size_t begin = 0, end = 0;  // in bytes
  };
  std::string text;
  std::vector<Span> learned;  // in order
  std::vector<size_t> cuts;   // where special tokens of the format begin: words end there
};

// A template's differences from the plain form of its family.
struct ChatFormat {
  enum class Family : uint8_t { chatml, llama3, gemma, mistral };
  // Where a system message goes: a turn of its own, before the first user's text, or nowhere.
  enum class System : uint8_t { turn, before_first_user, refused };

  Family family = Family::chatml;
  std::string bos, eos;  // of those that write them
  System system = System::turn;
  std::string default_system;  // chatml: where a conversation has none
  bool thinks = false;         // chatml: Qwen3's <think> blocks
  bool dated = false;          // llama3: 3.1's header with its dates
  // mistral: around what they say, and after an answer's end of text
  std::string before_user, after_user, before_answer, after_answer;
  bool trims_answer = false;  // mistral

  std::string name() const;         // "chatml"
  std::string description() const;  // all of it: what tokens of a conversation depend on
  std::vector<std::string> special_tokens() const;

  // Throws bad_input where the family's template refuses the conversation.
  Rendered render(std::span<const ChatMessage> messages) const;

  friend bool operator==(const ChatFormat&, const ChatFormat&) = default;
};

// Of a chat_template. `where` names it in errors. Throws a usage error for one that is not known.
ChatFormat parse_chat_template(std::string_view text, const std::string& where);

// Of a tokenizer without a chat_template: none where it has no family's tokens.
std::optional<ChatFormat> chat_format_of_tokens(const Tokenizer& tokenizer);

}  // namespace snug
