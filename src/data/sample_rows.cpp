#include "data/sample_rows.h"

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "base/error.h"
#include "base/units.h"

namespace snug {
namespace {

// The room that is left in rows; finds the first row with enough of it in log(rows) steps.
class FirstFit {
 public:
  FirstFit(size_t rows, int32_t room)
      : leaves_(std::bit_ceil(std::max<size_t>(rows, 1))), most_(2 * leaves_, room) {}

  // Takes `need` from the first row that has it. Some row has.
  int64_t take(int32_t need) {
    size_t at = 1;
    while (at < leaves_) at = most_[2 * at] >= need ? 2 * at : 2 * at + 1;
    most_[at] -= need;
    const size_t row = at - leaves_;
    for (at /= 2; at > 0; at /= 2) most_[at] = std::max(most_[2 * at], most_[2 * at + 1]);
    return static_cast<int64_t>(row);
  }

 private:
  size_t leaves_;
  std::vector<int32_t> most_;  // a tree: the most room below a node; rows are its leaves
};

}  // namespace

SampleRows::SampleRows(SampleFile file, std::string name, const SampleRowOptions& options)
    : file_(std::move(file)), name_(std::move(name)), options_(options) {
  if (T() <= 0) throw usage_error("a row of {} tokens makes no sense", T());
  file_.each([&](int64_t begin, std::span<const int32_t> words) { add_sample(begin, words); });
  if (long_ > 0 && options_.longer == LongSamples::refuse) refuse_long();
  if (pieces_.empty()) {
    throw bad_input("{}: none of its {} has a target that counts in its first {} tokens", name_,
                    counted(file_.samples(), "sample"), T())
        .hint("give a larger --seq, --long split, or --loss-on all");
  }
  lay_out();
}

void SampleRows::add_sample(int64_t begin, std::span<const int32_t> words) {
  ++seen_;
  const auto beyond =
      std::ranges::find_if(words, [&](int32_t word) { return id_of(word) >= options_.V; });
  if (beyond != words.end()) {
    throw bad_input("{}: token {} of sample {} is beyond the vocabulary of {}",
                    file_.path().string(), id_of(*beyond), seen_, options_.V)
        .hint("the file was tokenized for another model");
  }
  // Tokens after the last target that counts change nothing.
  while (!words.empty() && !counts(words.back())) words = words.first(words.size() - 1);
  const auto row = static_cast<size_t>(T());
  if (words.size() > row + 1) {
    if (long_++ == 0) first_long_ = seen_;
    longest_ = std::max(longest_, static_cast<int64_t>(words.size()) - 1);
    if (options_.longer == LongSamples::truncate) words = words.first(row + 1);
  }
  const size_t before = pieces_.size();
  for (size_t at = 0; at + 1 < words.size(); at += row) {
    add_piece(begin + static_cast<int64_t>(at),
              words.subspan(at, std::min(row + 1, words.size() - at)));
  }
  if (pieces_.size() == before) ++left_out_;
}

void SampleRows::add_piece(int64_t begin, std::span<const int32_t> words) {
  const auto n =
      std::ranges::count_if(words.subspan(1), [&](int32_t word) { return counts(word); });
  if (n == 0) return;
  pieces_.push_back({.begin = begin,
                     .tokens = static_cast<int32_t>(words.size()),
                     .targets = static_cast<int32_t>(n)});
}

void SampleRows::refuse_long() const {
  throw bad_input(
      "{}: {} of {} {} longer than --seq {}: the first is number {}, the longest has {} tokens",
      name_, format_exact(long_), counted(file_.samples(), "sample"), long_ == 1 ? "is" : "are",
      T(), first_long_, format_exact(longest_))
      .hint(fmt::format("give --seq {}, --long truncate or --long split", longest_));
}

// The row of each piece.
std::vector<int64_t> SampleRows::rows_of_pieces() const {
  std::vector<int64_t> rows;
  rows.reserve(pieces_.size());
  FirstFit fit(options_.pack ? pieces_.size() : 1, static_cast<int32_t>(T()));
  for (const Piece& piece : pieces_) {
    const auto next = static_cast<int64_t>(rows.size());
    rows.push_back(options_.pack ? fit.take(piece.tokens - 1) : next);
  }
  return rows;
}

// Puts pieces in the order of their rows; within a row they keep their order.
void SampleRows::lay_out() {
  const std::vector<int64_t> rows = rows_of_pieces();
  const auto n = static_cast<size_t>(*std::ranges::max_element(rows)) + 1;
  begins_.assign(n + 1, 0);
  targets_.assign(n, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    ++begins_[static_cast<size_t>(rows[i]) + 1];
    targets_[static_cast<size_t>(rows[i])] += pieces_[i].targets;
  }
  for (size_t row = 0; row < n; ++row) begins_[row + 1] += begins_[row];
  std::vector<Piece> sorted(pieces_.size());
  std::vector<int64_t> next(begins_.begin(), begins_.end() - 1);
  for (size_t i = 0; i < rows.size(); ++i)
    sorted[static_cast<size_t>(next[static_cast<size_t>(rows[i])]++)] = pieces_[i];
  pieces_ = std::move(sorted);
}

void SampleRows::fill(int64_t row, const RowSpans& out) const {
  const auto first = static_cast<size_t>(begins_[static_cast<size_t>(row)]);
  const auto last = static_cast<size_t>(begins_[static_cast<size_t>(row) + 1]);
  int64_t at = 0;
  for (size_t i = first; i < last; ++i) {
    fill_piece(pieces_[i], at, out);
    at += pieces_[i].tokens - 1;
  }
  // Padding is a document of its own.
  std::ranges::fill(out.tokens.subspan(static_cast<size_t>(at)), 0);
  std::ranges::fill(out.targets.subspan(static_cast<size_t>(at)), kIgnoredTarget);
  if (!out.starts.empty())
    std::ranges::fill(out.starts.subspan(static_cast<size_t>(at)), static_cast<int32_t>(at));
}

void SampleRows::fill_piece(const Piece& piece, int64_t at, const RowSpans& out) const {
  const auto n = static_cast<size_t>(piece.tokens) - 1;
  const auto tokens = out.tokens.subspan(static_cast<size_t>(at), n);
  const auto targets = out.targets.subspan(static_cast<size_t>(at), n);
  file_.copy(piece.begin, tokens);
  std::ranges::copy(tokens.subspan(1), targets.begin());
  file_.copy(piece.begin + piece.tokens - 1, targets.last(1));
  for (int32_t& word : tokens) word = id_of(word);
  for (int32_t& word : targets) word = counts(word) ? id_of(word) : kIgnoredTarget;
  if (!out.starts.empty())
    std::ranges::fill(out.starts.subspan(static_cast<size_t>(at), n), static_cast<int32_t>(at));
}

std::string SampleRows::text() const {
  int64_t inputs = 0, learned = 0;
  for (const Piece& piece : pieces_) inputs += piece.tokens - 1;
  for (const int32_t n : targets_) learned += n;
  std::string text = fmt::format(
      "{} ({}, {} tokens) = {} of {}, {:.0f}% filled, {} to learn", name_,
      counted(file_.samples(), "sample"), format_exact(file_.tokens()), counted(count(), noun()),
      T(), 100.0 * static_cast<double>(inputs) / static_cast<double>(count() * T()),
      counted(learned, "token"));
  if (long_ > 0)
    text += fmt::format("; {} longer than {} {}", counted(long_, "sample"), T(),
                        options_.longer == LongSamples::split ? "split" : "truncated");
  if (left_out_ > 0)
    text += fmt::format("; {} without a target that counts left out", counted(left_out_, "sample"));
  const SampleLines& lines = file_.lines();
  if (lines.empty > 0) text += fmt::format("; {} skipped", counted(lines.empty, "empty sample"));
  if (lines.bad > 0) text += fmt::format("; {} skipped", counted(lines.bad, "bad line"));
  return text;
}

DataFingerprint SampleRows::fingerprint() const {
  constexpr int64_t kLooks = 64, kTokens = 1024;
  Checksum sum;
  const int64_t size = file_.tokens(), each = std::min(kTokens, size);
  std::vector<int32_t> words(static_cast<size_t>(each));
  for (int64_t i = 0; i < kLooks; ++i) {  // from the first to the last
    file_.copy((size - each) / (kLooks - 1) * i, words);
    sum.add(std::as_bytes(std::span(words)));
  }
  sum.add(std::as_bytes(std::span(targets_)));
  return {.tokens = size, .checksum = sum.text()};
}

}  // namespace snug
