// Samples as tokens: the file that JSONL is kept in once it is tokenized. It says of every token
// whether it is to be learned, and where samples end.
//
//   SampleFileWriter out("chat.samples", 151936);
//   out.write(words);                       // one sample
//   out.commit({.lines = 100, .empty = 2});
//   const SampleFile file = SampleFile::open("chat.samples");
//
// Layout (little-endian): "SNUG.SMP", int32 version, bytes per token; int64 tokens, samples,
// vocabulary, lines, empty, bad; then the tokens as int16 or int32, ~id where one is not to be
// learned; from the next multiple of 8 on, int64 for each sample: the number of tokens up to its
// end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/staged_file.h"
#include "formats/file_reader.h"

namespace snug {

// A token of a sample: its id where it is to be learned, ~id where it is not.
constexpr int32_t not_learned(int32_t id) { return ~id; }
constexpr bool is_learned(int32_t word) { return word >= 0; }
constexpr int32_t id_of(int32_t word) { return word < 0 ? ~word : word; }

// What became of the lines that samples were made of.
struct SampleLines {
  int64_t lines = 0;  // with something on them
  int64_t empty = 0;  // of these: with nothing to learn
  int64_t bad = 0;    // and: skipped
  friend bool operator==(const SampleLines&, const SampleLines&) = default;
};

bool is_sample_file(const std::filesystem::path& path);

class SampleFile {
 public:
  // Throws bad_input where header, ends and size disagree, or there is no sample.
  static SampleFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  int64_t samples() const { return samples_; }
  int64_t tokens() const { return tokens_; }
  int64_t vocabulary() const { return vocabulary_; }
  const SampleLines& lines() const { return lines_; }

  // Words [begin, begin + out.size()). Allocates nothing. Throws bad_input where the file was
  // truncated since it was opened.
  void copy(int64_t begin, std::span<int32_t> out) const;
  // Every sample in order, with where its words begin: one sweep over the file, which is not in
  // memory whole.
  void each(const std::function<void(int64_t begin, std::span<const int32_t> words)>& visit) const;

 private:
  explicit SampleFile(FileReader file) : file_(std::move(file)) {}
  void read_header();
  void check_ends() const;
  int64_t ends_offset() const;
  std::vector<int64_t> ends(int64_t first, int64_t count) const;
  template <typename Word>
  void copy_as(int64_t begin, std::span<int32_t> out) const;

  FileReader file_;
  int64_t samples_ = 0, tokens_ = 0, vocabulary_ = 0, token_bytes_ = 4;
  SampleLines lines_;
};

class SampleFileWriter {
 public:
  // Ids are below `vocabulary`. Throws bad_input where it cannot write, and so do the others.
  SampleFileWriter(const std::filesystem::path& path, int64_t vocabulary);

  void write(std::span<const int32_t> words);
  int64_t samples() const { return static_cast<int64_t>(ends_.size()); }
  int64_t tokens() const { return ends_.empty() ? 0 : ends_.back(); }
  void commit(const SampleLines& lines);

 private:
  StagedFile file_;
  int64_t vocabulary_;
  std::vector<int64_t> ends_;
  std::vector<int16_t> narrow_;
};

}  // namespace snug
