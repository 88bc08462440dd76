// JSONL is tokenized once: its samples are kept in a file whose name says of which lines and which
// tokenizer they are. They do not depend on --seq, --pack, --long or --loss-on.
//
//   cached_samples({.data = "chat.jsonl", .model = "Qwen2.5-0.5B-Instruct", .V = 151936});
//   // ".snug-tokens/chat.jsonl-44bc2cf5ad770999.samples", written where it was not there
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/text_files.h"

namespace snug {

struct SampleCacheQuestion {
  std::filesystem::path data;       // a file of JSONL, or a directory with such files
  std::filesystem::path model;      // a directory with tokenizer.json; empty: tokens are bytes
  int64_t V = 0;                    // rows of its embedding
  int64_t skip_bad = 0;             // bad lines that are passed over
  std::filesystem::path directory;  // of cached samples; empty: .snug-tokens next to the data
};

// Throws as open_model_tokenizer, text_files and tokenize_samples do, and bad_input where nothing
// can be written.
std::filesystem::path cached_samples(const SampleCacheQuestion& question);

// Whether --data names JSONL: a file called .jsonl, .ndjson or .json, or a directory that holds
// files called .jsonl or .ndjson, at any depth, and no token files.
bool holds_jsonl(const std::filesystem::path& path);

// These files, in the order of their paths. Throws bad_input where they are empty.
std::vector<TextFile> jsonl_files(const std::filesystem::path& path);

}  // namespace snug
