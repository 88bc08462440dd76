// Rows made of the samples of a file: one sample each, or several where they are packed, filled up
// with padding that does not count.
//
//   SampleRows rows(SampleFile::open("chat.samples"), "chat.jsonl", {.T = 1024, .pack = true});
//   rows.text();    // "chat.jsonl (100 samples, 9,120 tokens) = 10 rows of 1024, 88% filled"
//
// Packing is first-fit in the order of the file: a sample goes into the first row that has room for
// it. So rows depend on the data and these options alone, and the position in the data stays one
// integer. Memory is a few integers for each sample; tokens stay in the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/rows.h"
#include "formats/sample_file.h"
#include "settings/run_words.h"

namespace snug {

struct SampleRowOptions {
  int64_t T = 0;
  bool pack = false;
  bool learn_all = false;  // what the file says is not to be learned, too
  LongSamples longer = LongSamples::truncate;
  int64_t V = 0;  // of the model: tokens must be below
};

class SampleRows : public Rows {
 public:
  // `name`: of the data, for people. Throws bad_input for a token that is not below V, for long
  // samples that are to be refused, and where no sample has a target that counts.
  SampleRows(SampleFile file, std::string name, const SampleRowOptions& options);

  int64_t count() const override { return static_cast<int64_t>(targets_.size()); }
  int64_t T() const override { return options_.T; }
  int64_t targets(int64_t row) const override { return targets_[static_cast<size_t>(row)]; }
  void fill(int64_t row, const RowSpans& out) const override;
  std::string text() const override;
  std::string noun() const override { return "row"; }
  DataFingerprint fingerprint() const override;

 private:
  // A sample, or a part of one: its inputs are all tokens but the last.
  struct Piece {
    int64_t begin = 0;  // in the file
    int32_t tokens = 0;
    int32_t targets = 0;  // that count
  };
  void add_sample(int64_t begin, std::span<const int32_t> words);
  bool counts(int32_t word) const { return options_.learn_all || is_learned(word); }
  void add_piece(int64_t begin, std::span<const int32_t> words);
  void refuse_long() const;
  std::vector<int64_t> rows_of_pieces() const;
  void lay_out();
  void fill_piece(const Piece& piece, int64_t at, const RowSpans& out) const;

  SampleFile file_;
  std::string name_;
  SampleRowOptions options_;
  std::vector<Piece> pieces_;    // row by row
  std::vector<int64_t> begins_;  // of each row, in pieces; one more at the end
  std::vector<int32_t> targets_;
  // For what is said.
  int64_t long_ = 0, first_long_ = 0, longest_ = 0, left_out_ = 0, seen_ = 0;
};

}  // namespace snug
