#include "data/chat_format.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizers/utf8.h"

namespace snug {
namespace {

constexpr std::string_view kImStart = "<|im_start|>", kImEnd = "<|im_end|>";
constexpr std::string_view kHeader = "<|start_header_id|>", kEndHeader = "<|end_header_id|>",
                           kEndTurn = "<|eot_id|>";
constexpr std::string_view kStartOfTurn = "<start_of_turn>", kEndOfTurn = "<end_of_turn>";
constexpr std::string_view kDates =
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024";

// As Python's str.strip() has it.
std::string_view strip(std::string_view text) {
  const auto is_space = [](char32_t c) { return is_white_space(c) || (c >= 0x1c && c <= 0x1f); };
  while (!text.empty() && is_space(code_point_at(text, 0).value))
    text.remove_prefix(code_point_at(text, 0).bytes);
  while (!text.empty()) {
    const CodePoint last = code_point_before(text, text.size());
    if (!is_space(last.value)) break;
    text.remove_suffix(last.bytes);
  }
  return text;
}

std::string_view strip_newlines(std::string_view text) {
  while (text.starts_with('\n')) text.remove_prefix(1);
  return text;
}

// Puts a sample together.
class Writer {
 public:
  Writer& add(std::string_view text) {
    out_.text += text;
    return *this;
  }
  Writer& special(std::string_view token) {
    out_.cuts.push_back(out_.text.size());
    return add(token);
  }
  // The text from here until end() is learned.
  Writer& begin() {
    begin_ = out_.text.size();
    return *this;
  }
  Writer& end() {
    out_.learned.push_back({begin_, out_.text.size()});
    return *this;
  }
  Rendered take() { return std::move(out_); }

 private:
  Rendered out_;
  size_t begin_ = 0;
};

// --- chatml -------------------------------------------------------------------------------------

// An answer of Qwen3: what was thought, and what was said.
struct Thought {
  std::string thought, said;
};

Thought split_thought(const std::string& content) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const size_t first = content.find(kEnd);
  if (first == std::string::npos) return {.thought = {}, .said = content};
  std::string_view thought = std::string_view(content).substr(0, first);
  while (thought.ends_with('\n')) thought.remove_suffix(1);
  if (const size_t at = thought.rfind(kBegin); at != thought.npos)
    thought.remove_prefix(at + kBegin.size());
  const std::string_view said = std::string_view(content).substr(content.rfind(kEnd) + kEnd.size());
  return {.thought = std::string(strip_newlines(thought)),
          .said = std::string(strip_newlines(said))};
}

// Qwen3 writes a block of thoughts, empty or not, before the last answer, and before those after
// the last question that have thoughts. An empty one is the template's, and is not learned.
void write_thinking_answer(Writer& out, const ChatMessage& message, bool after_question,
                           bool is_last) {
  const Thought answer = split_thought(message.content);
  const bool thinks = after_question && (is_last || !answer.thought.empty());
  if (!thinks) {
    out.begin().add(answer.said);
    return;
  }
  if (!answer.thought.empty()) out.begin();
  out.add("<think>\n").add(answer.thought).add("\n</think>\n\n");
  if (answer.thought.empty()) out.begin();
  out.add(strip_newlines(answer.said));
}

// The last message of a user that is no answer of a tool: its index, or that of the last message.
size_t last_question(std::span<const ChatMessage> messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    const std::string& said = messages[i].content;
    const bool of_tool = said.starts_with("<tool_response>") && said.ends_with("</tool_response>");
    if (messages[i].role == ChatRole::user && !of_tool) return i;
  }
  return messages.size() - 1;
}

Rendered render_chatml(const ChatFormat& format, std::span<const ChatMessage> messages) {
  Writer out;
  const auto turn = [&](std::string_view role) { out.special(kImStart).add(role).add("\n"); };
  if (!format.default_system.empty() && messages.front().role != ChatRole::system) {
    turn("system");
    out.add(format.default_system).special(kImEnd).add("\n");
  }
  const size_t question = last_question(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    turn(name_of(message.role));
    if (message.role != ChatRole::assistant) {
      out.add(message.content).special(kImEnd).add("\n");
      continue;
    }
    if (format.thinks)
      write_thinking_answer(out, message, i > question, i + 1 == messages.size());
    else
      out.begin().add(message.content);
    out.special(kImEnd).end().add("\n");
  }
  return out.take();
}

// --- llama3 -------------------------------------------------------------------------------------

Rendered render_llama3(const ChatFormat& format, std::span<const ChatMessage> messages) {
  Writer out;
  const auto turn = [&](std::string_view role) {
    out.special(kHeader).add(role).special(kEndHeader).add("\n\n");
  };
  out.special(format.bos);
  if (format.dated) {
    turn("system");
    out.add(kDates).add("\n\n");
    if (messages.front().role == ChatRole::system) {
      out.add(strip(messages.front().content));
      messages = messages.subspan(1);
    }
    out.special(kEndTurn);
  }
  for (const ChatMessage& message : messages) {
    turn(name_of(message.role));
    const bool learned = message.role == ChatRole::assistant;
    if (learned) out.begin();
    out.add(strip(message.content)).special(kEndTurn);
    if (learned) out.end();
  }
  return out.take();
}

// --- gemma and mistral --------------------------------------------------------------------------

// Takes the system message from the front. Users and assistants must take turns.
std::string take_system(const ChatFormat& format, std::span<const ChatMessage>& messages) {
  std::string system;
  if (messages.front().role == ChatRole::system) {
    if (format.system == ChatFormat::System::refused)
      throw bad_input("the {} template of this model has no place for a system message",
                      format.name());
    system = messages.front().content + "\n\n";
    messages = messages.subspan(1);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatRole want = i % 2 == 0 ? ChatRole::user : ChatRole::assistant;
    if (messages[i].role != want)
      throw bad_input("message {} is of the {}: the {} template wants user and assistant in turn",
                      i + 1 + (system.empty() ? 0 : 1), name_of(messages[i].role), format.name());
  }
  return system;
}

Rendered render_gemma(const ChatFormat& format, std::span<const ChatMessage> messages) {
  Writer out;
  std::string before = take_system(format, messages);
  out.special(format.bos);
  for (const ChatMessage& message : messages) {
    const bool learned = message.role == ChatRole::assistant;
    out.special(kStartOfTurn).add(learned ? "model\n" : "user\n").add(before);
    before.clear();
    if (learned) out.begin();
    out.add(strip(message.content)).special(kEndOfTurn);
    if (learned) out.end();
    out.add("\n");
  }
  return out.take();
}

Rendered render_mistral(const ChatFormat& format, std::span<const ChatMessage> messages) {
  Writer out;
  std::string before = take_system(format, messages);
  out.special(format.bos);
  for (const ChatMessage& message : messages) {
    if (message.role == ChatRole::user) {
      out.add(format.before_user).add(before).add(message.content).add(format.after_user);
      before.clear();
      continue;
    }
    const std::string_view said =
        format.trims_answer ? strip(message.content) : std::string_view(message.content);
    out.add(format.before_answer).begin().add(said).special(format.eos).end();
    out.add(format.after_answer);
  }
  return out.take();
}

}  // namespace

std::string ChatFormat::name() const {
  switch (family) {
    case Family::chatml:
      return "chatml";
    case Family::llama3:
      return dated ? "llama3.1" : "llama3";
    case Family::gemma:
      return "gemma";
    case Family::mistral:
      return "mistral";
  }
  return "";
}

std::string ChatFormat::description() const {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", name(), bos, eos, static_cast<int>(system),
                     default_system, thinks, before_user, after_user, before_answer, after_answer,
                     trims_answer);
}

std::vector<std::string> ChatFormat::special_tokens() const {
  switch (family) {
    case Family::chatml:
      return {std::string(kImStart), std::string(kImEnd)};
    case Family::llama3:
      return {bos, std::string(kHeader), std::string(kEndHeader), std::string(kEndTurn)};
    case Family::gemma:
      return {bos, std::string(kStartOfTurn), std::string(kEndOfTurn)};
    case Family::mistral:
      return {bos, eos};
  }
  return {};
}

Rendered ChatFormat::render(std::span<const ChatMessage> messages) const {
  if (messages.empty()) throw internal_error("a conversation without messages");
  switch (family) {
    case Family::chatml:
      return render_chatml(*this, messages);
    case Family::llama3:
      return render_llama3(*this, messages);
    case Family::gemma:
      return render_gemma(*this, messages);
    case Family::mistral:
      return render_mistral(*this, messages);
  }
  return {};
}

}  // namespace snug
