// The tokenizer of a Hugging Face directory, and what else training needs to know of it.
//
//   const ModelTokenizer model = open_model_tokenizer("Qwen2.5-0.5B");
//   model.end_of_text;    // 151643
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/chat_format.h"
#include "tokenizers/tokenizer.h"

namespace snug {

constexpr const char* kTokenizerFile = "tokenizer.json";

struct ModelTokenizer {
  Tokenizer tokenizer;
  std::filesystem::path path;             // of tokenizer.json
  std::string checksum;                   // of its bytes
  std::optional<int32_t> end_of_text;     // what goes between two documents
  std::optional<int64_t> embedding_rows;  // of config.json next to it
  std::string chat_template;              // of chat_template.jinja or tokenizer_config.json
  std::string bos_token, eos_token;       // of tokenizer_config.json; "" where it says nothing
};

// `path`: a directory with tokenizer.json, or that file. `end_of_text`: the token's text where it
// is asked for, else tokenizer_config.json's eos_token, else one of the usual names. Throws as
// Tokenizer::open does, a usage error where the token asked for is none, and bad_input where
// config.json says that the model has fewer rows than the tokenizer has ids.
ModelTokenizer open_model_tokenizer(const std::filesystem::path& path,
                                    const std::string& end_of_text = "");

// Throws bad_input where ids are not below the rows of the model's embedding.
void require_rows(const ModelTokenizer& model, int64_t rows);

// Throws a usage error where there are several documents and no token to put between them.
int32_t require_end_of_text(const ModelTokenizer& model, size_t documents);

// How the model writes conversations. Throws a usage error where its template is not known, it has
// none and no family's tokens, or lacks a token that its template writes.
ChatFormat chat_format_of(const ModelTokenizer& model);

}  // namespace snug
