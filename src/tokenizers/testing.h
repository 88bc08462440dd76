// Tokenizers small enough to read, for tests.
//
//   const Tokenizer t = read(byte_level({"l o", "lo w"}));
//   token_texts(t, "low");   // {"low"}
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizers/byte_letters.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/unicode.h"

namespace snug::testing {

inline Tokenizer read(const nlohmann::json& file) {
  return Tokenizer::parse(file.dump(), "tokenizer.json");
}

inline std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  Encoder(tokenizer).encode(text, ids);
  return ids;
}

inline std::vector<std::string> token_texts(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> texts;
  for (const int32_t id : ids_of(tokenizer, text)) texts.push_back(tokenizer.text_of(id));
  return texts;
}

// A vocabulary of `first`, then of what the merges make.
inline nlohmann::json bpe(std::vector<std::string> first,
                          std::initializer_list<const char*> merges) {
  nlohmann::json model{{"type", "BPE"}, {"merges", merges}};
  for (std::string merge : merges) first.push_back(merge.erase(merge.find(' '), 1));
  if (merges.size() == 0) model["merges"] = nlohmann::json::array();
  for (size_t i = 0; i < first.size(); ++i) model["vocab"][first[i]] = i;
  return model;
}

inline nlohmann::json byte_level(std::initializer_list<const char*> merges) {
  std::vector<std::string> letters;
  for (int byte = 0; byte < 256; ++byte)
    letters.push_back(letters_of(std::string(1, static_cast<char>(byte))));
  return {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", bpe(letters, merges)}};
}

inline nlohmann::json sentence_piece(std::initializer_list<const char*> merges) {
  std::vector<std::string> first{"<unk>", "▁", "a", "b", "l", "o", "w", "e"};
  for (int byte = 0; byte < 256; ++byte) first.push_back(fmt::format("<0x{:02X}>", byte));
  nlohmann::json file{{"model", bpe(first, merges)}};
  file["model"].update({{"unk_token", "<unk>"}, {"byte_fallback", true}, {"fuse_unk", true}});
  file["normalizer"] = nlohmann::json::parse(R"({"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})");
  file["decoder"] = nlohmann::json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  return file;
}

inline void add_token(nlohmann::json& file, const char* content, int id,
                      const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json token{{"id", id},           {"content", content}, {"single_word", false},
                       {"lstrip", false},    {"rstrip", false},    {"special", true},
                       {"normalized", false}};
  token.update(more);
  file["added_tokens"].push_back(token);
}

inline nlohmann::json bert(std::vector<std::string> pieces) {
  nlohmann::json file{{"normalizer", {{"type", "BertNormalizer"}}},
                      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                      {"model", {{"type", "WordPiece"}}}};
  pieces.insert(pieces.begin(), {"[UNK]", "[CLS]", "[SEP]"});
  for (size_t i = 0; i < pieces.size(); ++i) file["model"]["vocab"][pieces[i]] = i;
  for (int i = 0; i < 3; ++i) add_token(file, pieces[static_cast<size_t>(i)].c_str(), i);
  file["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
      {"SpecialToken": {"id": "[SEP]", "type_id": 0}}], "special_tokens": {
      "[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
      "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}})");
  return file;
}

}  // namespace snug::testing
