// Recognizes the format of a chat_template: by the expression that writes a turn, in a form without
// white space and with one spelling of strings and fields.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "data/chat_format.h"
#include "tokenizers/tokenizer.h"

namespace snug {
namespace {

using Family = ChatFormat::Family;
using System = ChatFormat::System;

// {# ... #}
std::string without_comments(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t begin = std::min(text.find("{#"), text.size());
    out += text.substr(0, begin);
    text.remove_prefix(begin);
    const size_t end = text.find("#}");
    text.remove_prefix(end == text.npos ? text.size() : end + 2);
  }
  return out;
}

// In place of a single quote inside a string.
constexpr char kQuote = '\1';

// A string of the template, from its quote on: its characters between single quotes.
std::string take_string(std::string_view& text) {
  const char quote = text.front();
  text.remove_prefix(1);
  std::string out = "'";
  while (!text.empty() && text.front() != quote) {
    const bool escaped = text.front() == '\\' && text.size() > 1;
    if (escaped) text.remove_prefix(1);
    const char c = escaped && text.front() == 'n' ? '\n' : text.front();
    out += c == '\'' ? kQuote : c;
    text.remove_prefix(1);
  }
  if (!text.empty()) text.remove_prefix(1);
  return out + "'";
}

// "{{ a['role']  + \"x\" }}" -> "{{a.role+'x'}}"
std::string one_spelling(std::string_view text) {
  const std::string plain = without_comments(text);
  std::string out;
  for (std::string_view rest = plain; !rest.empty();) {
    const char c = rest.front();
    if (c == '\'' || c == '"') {
      out += take_string(rest);
      continue;
    }
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') out += c;
    rest.remove_prefix(1);
  }
  for (const std::string field : {"role", "content"}) {
    const std::string spelled = "['" + field + "']";
    for (size_t at = out.find(spelled); at != out.npos; at = out.find(spelled))
      out.replace(at, spelled.size(), "." + field);
  }
  return out;
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw usage_error("{} is not supported: {}", where, what)
      .hint("give samples with 'prompt' and 'completion', written as the model expects them");
}

// The system message that a ChatML template writes itself: '<|im_start|>system\nTEXT<|im_end|>'.
std::string default_system(std::string_view text, const std::string& where) {
  constexpr std::string_view kTurn = "<|im_start|>system\n", kEnd = "<|im_end|>";
  std::string found;
  for (size_t at = text.find(kTurn); at != text.npos; at = text.find(kTurn, at + 1)) {
    const size_t begin = at + kTurn.size();
    const size_t end = text.find_first_of('\'', begin), stop = text.find(kEnd, begin);
    if (stop == text.npos || end < stop) continue;
    std::string words(text.substr(begin, stop - begin));
    std::ranges::replace(words, kQuote, '\'');
    if (!found.empty() && found != words) refuse(where, "it has two default system messages");
    found = words;
  }
  return found;
}

ChatFormat chatml_of(std::string_view text, const std::string& where) {
  constexpr std::string_view kTurn = "'<|im_start|>'+message.role+'\n'+";
  const std::string turn(kTurn);
  const bool plain = holds(text, turn + "message.content+'<|im_end|>") ||
                     holds(text, turn + "content+'<|im_end|>");
  for (const std::string_view part : {"<|im_sep|>", "strftime_now", "bos_token", "content|trim"})
    if (holds(text, part)) refuse(where, fmt::format("its ChatML has '{}'", part));
  if (!plain) refuse(where, "its turns are not those of ChatML");
  // Its first template asked message.content, later ones a copy of it.
  const bool thinks =
      holds(text, "last_query_index") &&
      (holds(text, "'</think>'incontent") || holds(text, "'</think>'inmessage.content"));
  if (!thinks && holds(text, "<think>")) refuse(where, "its <think> is not that of Qwen3");
  ChatFormat out;
  out.thinks = thinks;
  out.default_system = default_system(text, where);
  return out;
}

ChatFormat llama3_of(std::string_view text, const std::string& where) {
  ChatFormat out;
  out.family = Family::llama3;
  out.bos = "<|begin_of_text|>";
  out.dated = holds(text, "Cutting Knowledge Date");
  const bool turns = holds(text,
                           "'<|start_header_id|>'+message.role+'<|end_header_id|>\n\n'+"
                           "message.content|trim+'<|eot_id|>'");
  if (!turns || !holds(text, "bos_token")) refuse(where, "its turns are not those of Llama 3");
  if (out.dated && !(holds(text, "'Cutting Knowledge Date: December 2023\n'") &&
                     holds(text, "'Today Date: '+date_string") && holds(text, "'26 Jul 2024'")))
    refuse(where, "its dates are not those of Llama 3.1 to 3.3");
  return out;
}

ChatFormat gemma_of(std::string_view text, const std::string& where) {
  ChatFormat out;
  out.family = Family::gemma;
  out.bos = "<bos>";
  const std::string turn = "'<start_of_turn>'+role+'\n'+";
  const bool prefixes = holds(text, turn + "(first_user_prefixifloop.firstelse'')");
  if (!prefixes && !holds(text, turn + "message.content|trim+'<end_of_turn>\n'"))
    refuse(where, "its turns are not those of Gemma 1 to 3");
  if (!prefixes && !holds(text, "'System role not supported'"))
    refuse(where, "it is not known where it puts a system message");
  out.system = prefixes ? System::before_first_user : System::refused;
  return out;
}

// Mistral's templates differ in spaces.
struct MistralTurns {
  std::string_view user, answer;
  ChatFormat format;
};

ChatFormat mistral_form(const char* before_user, const char* after_user, const char* before_answer,
                        bool trims, System system) {
  ChatFormat out;
  out.family = Family::mistral;
  out.bos = "<s>";
  out.eos = "</s>";
  out.system = system;
  out.before_user = before_user;
  out.after_user = after_user;
  out.before_answer = before_answer;
  out.trims_answer = trims;
  return out;
}

// Of the tokenizer whose [INST] is one token.
ChatFormat mistral_v3() { return mistral_form("[INST] ", "[/INST]", " ", true, System::refused); }

// v0.1's first template: a space after every end of text.
ChatFormat mistral_v1() {
  ChatFormat out = mistral_form("[INST] ", " [/INST]", "", false, System::refused);
  out.after_answer = " ";
  return out;
}

ChatFormat mistral_of(std::string_view text, const std::string& where) {
  const std::array<MistralTurns, 5> known{{
      {"{{-' [INST] '+message.content+' [/INST]'}}", "' '+message.content+eos_token",
       mistral_form(" [INST] ", " [/INST]", " ", false, System::before_first_user)},
      {"'[INST] '+message.content+' [/INST]'", "{{message.content+eos_token+' '}}", mistral_v1()},
      {"'[INST] '+message.content+' [/INST]'", "{{message.content+eos_token}}",
       mistral_form("[INST] ", " [/INST]", "", false, System::refused)},
      {"'[INST] '+message.content+'[/INST]'", "' '+message.content|trim+eos_token", mistral_v3()},
      {"'[INST]'+message.content+'[/INST]'", "{{-message.content+eos_token",
       mistral_form("[INST]", "[/INST]", "", false, System::refused)},
  }};
  if (holds(text, "<<SYS>>")) refuse(where, "it is Llama 2's");
  if (holds(text, "[SYSTEM_PROMPT]")) refuse(where, "it is that of Mistral's v7 tokenizer");
  for (const MistralTurns& turns : known)
    if (holds(text, turns.user) && holds(text, turns.answer)) return turns.format;
  refuse(where, "its turns are not those of Mistral's v0.1 to v0.3 and Nemo");
}

}  // namespace

ChatFormat parse_chat_template(std::string_view text, const std::string& where) {
  const std::string spelled = one_spelling(text);
  if (holds(spelled, "<|im_start|>")) return chatml_of(spelled, where);
  if (holds(spelled, "<|start_header_id|>")) return llama3_of(spelled, where);
  if (holds(spelled, "<start_of_turn>")) return gemma_of(spelled, where);
  if (holds(spelled, "[INST]")) return mistral_of(spelled, where);
  refuse(where, "it is not of the families ChatML, Llama 3, Gemma and Mistral");
}

std::optional<ChatFormat> chat_format_of_tokens(const Tokenizer& tokenizer) {
  const auto has = [&](const char* token) { return tokenizer.find(token) != kNoToken; };
  ChatFormat out;
  if (has("<|im_start|>") && has("<|im_end|>")) return out;
  if (has("<|start_header_id|>") && has("<|eot_id|>")) {
    out.family = Family::llama3;
    out.bos = "<|begin_of_text|>";
    return out;
  }
  if (has("<start_of_turn>") && has("<end_of_turn>")) {
    out.family = Family::gemma;
    out.bos = "<bos>";
    out.system = System::before_first_user;
    return out;
  }
  if (has("[INST]") && has("[/INST]")) return mistral_v3();
  return std::nullopt;
}

}  // namespace snug
