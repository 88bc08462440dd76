// Expected strings are those of transformers 5.23's apply_chat_template with the families'
// published templates.
#include "data/chat_format.h"

#include "formats/testing.h"
#include "tokenizers/regex.h"
#include "tokenizers/testing.h"

namespace snug {
namespace {

using testing::expect_error;

constexpr ChatRole kSystem = ChatRole::system, kUser = ChatRole::user,
                   kAssistant = ChatRole::assistant;
const std::vector<ChatMessage> kPlain{{kUser, " Hi\n"}, {kAssistant, "Hello "}};
const std::vector<ChatMessage> kWithSystem{{kSystem, "Be brief."},
                                           {kUser, "Hi"},
                                           {kAssistant, "Hello"},
                                           {kUser, "So"},
                                           {kAssistant, "So"}};

std::vector<std::string> learned(const Rendered& r) {
  std::vector<std::string> out;
  for (const auto& [begin, end] : r.learned) out.push_back(r.text.substr(begin, end - begin));
  return out;
}

// How families write a turn, with what is around it left out.
const std::string kChatml =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}";
const std::string kLlama3 =
    "{{- bos_token }}{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}{%- endfor %}";
const std::string kDates =
    "{%- set date_string = \"26 Jul 2024\" %}{{- \"Cutting Knowledge Date: December 2023\\n\" }}"
    "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}";
const std::string kGemma3 =
    "{{ bos_token }}{{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "
    "\"\") }}";
const std::string kGemma2 =
    "{{ raise_exception('System role not supported') }}{{ '<start_of_turn>' + role + '\n' + "
    "message['content'] | trim + '<end_of_turn>\n' }}";
const std::string kMistral3 =
    "{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}{{- \" \" + message[\"content\"]|trim "
    "+ "
    "eos_token}}";

TEST(ChatFormat, ChatmlAsItIs) {
  const ChatFormat format = parse_chat_template(kChatml, "t");
  const Rendered chat = format.render(kPlain);
  EXPECT_EQ(chat.text,
            "<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\nHello <|im_end|>\n");
  EXPECT_EQ(learned(chat), (std::vector<std::string>{"Hello <|im_end|>"}));
  for (const size_t cut : chat.cuts) EXPECT_EQ(chat.text.substr(cut, 5), "<|im_");
  EXPECT_EQ(learned(format.render(kWithSystem)),
            (std::vector<std::string>{"Hello<|im_end|>", "So<|im_end|>"}));
}

TEST(ChatFormat, ChatmlWithADefaultSystemMessage) {
  const ChatFormat qwen = parse_chat_template(
      "{%- if tools %}{{- '<|im_start|>system\\n' }}{%- else %}{{- '<|im_start|>system\\nYou are "
      "Qwen.<|im_end|>\\n' }}{%- endif %}" +
          kChatml,
      "t");
  EXPECT_EQ(qwen.default_system, "You are Qwen.");
  EXPECT_TRUE(qwen.render(kPlain).text.starts_with(
      "<|im_start|>system\nYou are Qwen.<|im_end|>\n<|im_start|>user\n"));
  EXPECT_TRUE(qwen.render(kWithSystem)
                  .text.starts_with("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"));
  EXPECT_EQ(parse_chat_template("{{ \"<|im_start|>system\\nIt's I<|im_end|>\" }}" + kChatml, "t")
                .default_system,
            "It's I");
}

TEST(ChatFormat, ChatmlWithThinking) {
  const ChatFormat qwen3 = parse_chat_template(
      "{%- set ns = namespace(last_query_index=0) %}{%- if '</think>' in content %}{%- endif %}"
      "{{- '\\n<think>\\n' }}" +
          kChatml,
      "t");
  ASSERT_TRUE(qwen3.thinks);
  EXPECT_TRUE(
      parse_chat_template("{%- set ns = namespace(last_query_index=0) %}{%- if '</think>' in "
                          "message.content %}{{- '<think>' }}{%- endif %}" +
                              kChatml,
                          "t")
          .thinks)
      << "as it was first published";
  const Rendered plain = qwen3.render(kPlain);
  EXPECT_EQ(
      plain.text,
      "<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nHello "
      "<|im_end|>\n");
  EXPECT_EQ(learned(plain), (std::vector<std::string>{"Hello <|im_end|>"}));
  const std::string thought = "<think>\nhmm\n</think>\n\nyes";
  const Rendered two = qwen3.render(std::vector<ChatMessage>{
      {kUser, "a"}, {kAssistant, thought}, {kUser, "b"}, {kAssistant, thought}});
  EXPECT_EQ(two.text,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n"
            "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n<think>\nhmm\n</think>\n\nyes"
            "<|im_end|>\n");
  EXPECT_EQ(learned(two), (std::vector<std::string>{"yes<|im_end|>", thought + "<|im_end|>"}));
}

TEST(ChatFormat, Llama3) {
  const Rendered chat = parse_chat_template(kLlama3, "t").render(kPlain);
  EXPECT_EQ(chat.text,
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>");
  EXPECT_EQ(learned(chat), (std::vector<std::string>{"Hello<|eot_id|>"}));
}

TEST(ChatFormat, Llama31HasDates) {
  const ChatFormat format = parse_chat_template(kDates + kLlama3, "t");
  EXPECT_EQ(format.name(), "llama3.1");
  EXPECT_TRUE(format.render(kPlain).text.starts_with(
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: "
      "December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user"));
  EXPECT_TRUE(format.render(kWithSystem)
                  .text.starts_with("<|begin_of_text|><|start_header_id|>system<|end_header_id|>"
                                    "\n\nCutting Knowledge Date: "
                                    "December 2023\nToday Date: 26 Jul 2024\n\nBe "
                                    "brief.<|eot_id|><|start_header_id|>user"));
}

TEST(ChatFormat, Gemma) {
  const ChatFormat gemma3 = parse_chat_template(kGemma3, "t");
  const Rendered chat = gemma3.render(kWithSystem);
  EXPECT_EQ(chat.text,
            "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello"
            "<end_of_turn>\n<start_of_turn>user\nSo<end_of_turn>\n<start_of_turn>model\nSo"
            "<end_of_turn>\n");
  EXPECT_EQ(learned(chat), (std::vector<std::string>{"Hello<end_of_turn>", "So<end_of_turn>"}));
  expect_error(ExitCode::bad_input, "no place for a system message",
               [&] { parse_chat_template(kGemma2, "t").render(kWithSystem); });
  expect_error(ExitCode::bad_input, "message 1 is of the assistant: the gemma template wants", [&] {
    gemma3.render(std::vector<ChatMessage>{{kAssistant, "a"}});
  });
  expect_error(ExitCode::bad_input, "message 3 is of the user", [&] {
    gemma3.render(std::vector<ChatMessage>{{kSystem, "s"}, {kUser, "a"}, {kUser, "b"}});
  });
}

TEST(ChatFormat, Mistral) {
  const ChatFormat first = parse_chat_template(
      "{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token}}", "t");
  EXPECT_EQ(first.render(kPlain).text, "<s>[INST]  Hi\n [/INST]Hello </s>");
  const ChatFormat spaced = parse_chat_template(
      "{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + eos_token + ' ' }}",
      "t");
  EXPECT_EQ(spaced.render(kPlain).text, "<s>[INST]  Hi\n [/INST]Hello </s> ");
  EXPECT_EQ(learned(spaced.render(kPlain)), (std::vector<std::string>{"Hello </s>"}));
  EXPECT_NE(spaced.description(), first.description());
  const Rendered third = parse_chat_template(kMistral3, "t").render(kPlain);
  EXPECT_EQ(third.text, "<s>[INST]  Hi\n[/INST] Hello</s>");
  EXPECT_EQ(learned(third), (std::vector<std::string>{"Hello</s>"}));
  const ChatFormat second = parse_chat_template(
      "{{- \" [INST] \" + message[\"content\"] + \" [/INST]\" }}{{- \" \" + message[\"content\"] + "
      "eos_token}}",
      "t");
  EXPECT_EQ(second.render(kWithSystem).text,
            "<s> [INST] Be brief.\n\nHi [/INST] Hello</s> [INST] So [/INST] So</s>");
  expect_error(ExitCode::bad_input, "the mistral template of this model has no place",
               [&] { first.render(kWithSystem); });
}

TEST(ChatTemplate, UnknownTemplateIsRefusedByName) {
  const auto refused = [](const std::string& text, std::string_view part) {
    expect_error(ExitCode::usage, part, [&] { parse_chat_template(text, "its chat_template"); });
  };
  refused("{{ '<|user|>' }}", "its chat_template is not supported: it is not of the families");
  refused("{{ '<|im_start|>' + message['role'] + '<|im_sep|>' }}", "its ChatML has '<|im_sep|>'");
  refused("{{ bos_token }}" + kChatml, "its ChatML has 'bos_token'");
  refused("{{ '<|im_start|>' + role }}", "its turns are not those of ChatML");
  refused("{{ '<think>' }}" + kChatml, "its <think> is not that of Qwen3");
  refused(
      "{{ '<|im_start|>system\na<|im_end|>' }}{{ '<|im_start|>system\nb<|im_end|>' }}" + kChatml,
      "two default system messages");
  refused("{{ '<|start_header_id|>' }}", "its turns are not those of Llama 3");
  refused("{{ 'Cutting Knowledge Date: August 2024\\n' }}" + kLlama3, "its dates are not those");
  refused("{{ '<start_of_turn>' }}", "its turns are not those of Gemma");
  refused("{{ '[INST] <<SYS>>' }}", "it is Llama 2's");
  refused("{{ '[SYSTEM_PROMPT][INST]' }}", "it is that of Mistral's v7 tokenizer");
  refused("{{ '[INST]' }}", "its turns are not those of Mistral's");
  refused("", "it is not of the families");
  refused("{# '<|im_start|>' #}", "it is not of the families");
}

TEST(ChatTemplate, TokensIdentifyFamilyWithoutTemplate) {
  if (!has_regex()) GTEST_SKIP() << "no PCRE2 in this build";
  const auto family = [](std::initializer_list<const char*> tokens) {
    nlohmann::json file = testing::byte_level({});
    int id = 256;
    for (const char* token : tokens) testing::add_token(file, token, id++);
    return chat_format_of_tokens(testing::read(file));
  };
  EXPECT_EQ(family({"<|im_start|>", "<|im_end|>"})->name(), "chatml");
  EXPECT_EQ(family({"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"})->name(), "llama3");
  EXPECT_EQ(family({"<start_of_turn>", "<end_of_turn>"})->name(), "gemma");
  EXPECT_EQ(family({"[INST]", "[/INST]"})->name(), "mistral");
  EXPECT_FALSE(family({"<s>"}));
}

}  // namespace
}  // namespace snug
