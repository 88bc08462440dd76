#include "data/model_tokenizer.h"

#include <array>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "base/text.h"
#include "formats/json_depth.h"
#include "formats/json_error.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// Null where there is no such file.
nlohmann::json read_sibling(const fs::path& tokenizer, const char* name) {
  const fs::path path = tokenizer.parent_path() / name;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  const std::string text = read_file(path);
  require_shallow_json(text, path.string());
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw bad_input("{} is not JSON: {}", path.string(), plain_words(error));
  }
}

// "eos_token": "</s>", or {"content": "</s>", ...}
std::string token_in(const nlohmann::json& config, const char* name) {
  if (!config.is_object() || !config.contains(name)) return "";
  const nlohmann::json& token = config[name];
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string())
    return token["content"].get<std::string>();
  return "";
}

std::optional<int32_t> find_token(const Tokenizer& tokenizer, std::string_view text) {
  const int32_t id = tokenizer.find(text);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::optional<int32_t> usual_end_of_text(const Tokenizer& tokenizer) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>",
                           "<｜end▁of▁sentence｜>", "<EOT>", "[SEP]"}) {
    if (const auto id = find_token(tokenizer, name)) return id;
  }
  return std::nullopt;
}

std::optional<int32_t> find_end_of_text(const Tokenizer& tokenizer, const fs::path& path,
                                        const std::string& asked, const std::string& eos) {
  if (!asked.empty()) {
    const auto id = find_token(tokenizer, asked);
    if (!id) throw usage_error("{} has no token '{}'", path.string(), printable(asked));
    return id;
  }
  const auto id = eos.empty() ? std::nullopt : find_token(tokenizer, eos);
  return id ? id : usual_end_of_text(tokenizer);
}

std::optional<int64_t> vocab_size(const nlohmann::json& config) {
  if (!config.is_object() || !config.contains("vocab_size")) return std::nullopt;
  const nlohmann::json& size = config["vocab_size"];
  return size.is_number_unsigned() ? std::optional(size.get<int64_t>()) : std::nullopt;
}

// "chat_template": "...", or a list of {"name": ..., "template": ...}, of which the default is
// meant. A file of its own comes first, as in transformers.
std::string chat_template_of(const fs::path& tokenizer, const nlohmann::json& config) {
  const fs::path file = tokenizer.parent_path() / "chat_template.jinja";
  std::error_code ignored;
  if (fs::is_regular_file(file, ignored)) return read_file(file);
  if (!config.is_object() || !config.contains("chat_template")) return "";
  const nlohmann::json& found = config["chat_template"];
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) return "";
  for (const nlohmann::json& one : found) {
    if (one.is_object() && one.value("name", nlohmann::json()) == "default")
      return token_in(one, "template");
  }
  return "";
}

fs::path tokenizer_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  fs::path file = path / kTokenizerFile;
  if (fs::exists(file, ignored)) return file;
  throw bad_input("{} holds no {}", path.string(), kTokenizerFile)
      .hint("AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) of transformers writes one");
}

}  // namespace

ModelTokenizer open_model_tokenizer(const fs::path& path, const std::string& end_of_text) {
  const fs::path file = tokenizer_file(path);
  const std::string text = read_file(file);
  const nlohmann::json config = read_sibling(file, "tokenizer_config.json");
  ModelTokenizer out{.tokenizer = Tokenizer::parse(text, file.string()),
                     .path = file,
                     .checksum = checksum_text(text),
                     .end_of_text = {},
                     .embedding_rows = vocab_size(read_sibling(file, "config.json")),
                     .chat_template = chat_template_of(file, config),
                     .bos_token = token_in(config, "bos_token"),
                     .eos_token = token_in(config, "eos_token")};
  out.end_of_text = find_end_of_text(out.tokenizer, file, end_of_text, out.eos_token);
  if (out.embedding_rows) require_rows(out, *out.embedding_rows);
  return out;
}

void require_rows(const ModelTokenizer& model, int64_t rows) {
  if (model.tokenizer.vocabulary() <= rows) return;
  throw bad_input("{} has {} ids, and the model's embedding has {} rows", model.path.string(),
                  model.tokenizer.vocabulary(), rows)
      .hint("it belongs to another model, or tokens were added and the embedding was not resized");
}

int32_t require_end_of_text(const ModelTokenizer& model, size_t documents) {
  if (model.end_of_text) return *model.end_of_text;
  if (documents < 2) return kNoToken;
  throw usage_error("{}: no token is known that goes between two of the {} documents",
                    model.path.string(), documents)
      .hint("say --eot TEXT, one of its tokens, to snug tokenize");
}

ChatFormat chat_format_of(const ModelTokenizer& model) {
  const std::string where = model.path.parent_path().string();
  std::optional<ChatFormat> format =
      model.chat_template.empty()
          ? chat_format_of_tokens(model.tokenizer)
          : parse_chat_template(model.chat_template, where + ": its chat_template");
  if (!format) {
    throw usage_error(
        "{}: it has no chat_template, and no tokens of ChatML, Llama 3, Gemma or "
        "Mistral to write conversations with",
        where)
        .hint(
            "give samples with 'prompt' and 'completion', or the directory of the instruct model");
  }
  if (!format->bos.empty() && !model.bos_token.empty()) format->bos = model.bos_token;
  if (!format->eos.empty() && !model.eos_token.empty()) format->eos = model.eos_token;
  Encoder encoder(model.tokenizer);
  for (const std::string& token : format->special_tokens()) {
    std::vector<int32_t> ids;
    encoder.encode(token, ids);
    if (ids != std::vector{model.tokenizer.find(token)}) {
      throw usage_error(
          "{}: its conversations are written as {}, and '{}' is not one of its tokens", where,
          format->name(), printable(token));
    }
  }
  return *std::move(format);
}

}  // namespace snug
