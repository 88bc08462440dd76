#include "generate/sample_words.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/model_directory.h"
#include "formats/json_depth.h"
#include "formats/json_error.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 256;

// "eos_token_id": 2, or [2, 3], of a file where it is there.
void add_end_tokens(const fs::path& path, std::set<int32_t>& ends) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  const std::string text = read_file(path);
  require_shallow_json(text, path.string());
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (!json.is_object() || !json.contains("eos_token_id")) return;
    const nlohmann::json& id = json["eos_token_id"];
    for (const nlohmann::json& one : id.is_array() ? id : nlohmann::json::array({id}))
      if (one.is_number_integer()) ends.insert(one.get<int32_t>());
  } catch (const nlohmann::json::exception& error) {
    throw bad_input("{} is not JSON: {}", path.string(), plain_words(error));
  }
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

SampleWords::SampleWords(const Model& model, bool bytes)
    : V_(model.config().V), name_(model.config().name) {
  const fs::path& directory = model.source_dir();
  bytes_ = bytes || (!model.has_tokenizer() && V_ == kBytes);
  if (bytes_ && V_ < kBytes)
    throw usage_error("--bytes, but '{}' has {} tokens, fewer than there are bytes", name_, V_);
  if (!bytes_ && is_there(directory / kTokenizerFile)) tokenizer_ = open_model_tokenizer(directory);
  if (bytes_) return;  // no byte ends a text
  for (const char* file : {kConfigFile, kGenerationConfigFile})
    add_end_tokens(directory / file, ends_);
  if (tokenizer_ && tokenizer_->end_of_text) ends_.insert(*tokenizer_->end_of_text);
}

std::vector<int32_t> SampleWords::encode(const std::string& text) const {
  std::vector<int32_t> ids;
  if (tokenizer_) {
    Encoder(tokenizer_->tokenizer).encode(text, ids, /*surrounded=*/true);
  } else if (bytes_) {
    std::ranges::transform(text, std::back_inserter(ids),
                           [](char c) { return static_cast<unsigned char>(c); });
  } else {
    throw usage_error("--prompt is text, and '{}' has {} tokens and no tokenizer.json", name_, V_)
        .hint("give --prompt-ids 1,2,3; or --bytes where the model was trained on bytes");
  }
  if (ids.empty()) throw usage_error("the prompt is empty: there is nothing to continue");
  return ids;
}

void SampleWords::check(std::span<const int32_t> ids) const {
  for (const int32_t id : ids) {
    if (id < 0 || id >= V_)
      throw usage_error("token {} of the prompt is not one of the {} of '{}'", id, V_, name_)
          .hint(fmt::format("tokens are numbers from 0 to {}", V_ - 1));
  }
}

std::optional<TextStream> SampleWords::stream(std::span<const int32_t> prompt) const {
  if (tokenizer_) return TextStream(&tokenizer_->tokenizer, prompt);
  if (bytes_) return TextStream::of_bytes();
  return std::nullopt;
}

}  // namespace snug
