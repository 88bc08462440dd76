#include "formats/sample_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/units.h"

namespace snug {
namespace {

constexpr std::string_view kSampleMagic = "SNUG.SMP";
constexpr int32_t kSamplesVersion = 1;
constexpr int64_t kInt16Vocabulary = int64_t{1} << 15;
constexpr int64_t kEndBytes = sizeof(int64_t);
constexpr int64_t kEndsAtOnce = 1 << 16;

struct SampleHeader {
  std::array<char, 8> magic{};
  int32_t version = kSamplesVersion, token_bytes = 4;
  int64_t tokens = 0, samples = 0, vocabulary = 0, lines = 0, empty = 0, bad = 0;
};
static_assert(sizeof(SampleHeader) == 64);

int64_t sample_width(int64_t vocabulary) { return vocabulary > kInt16Vocabulary ? 4 : 2; }

std::span<std::byte> bytes_of(SampleHeader& header) {
  return std::as_writable_bytes(std::span(&header, 1));
}

SampleHeader sample_header(int64_t vocabulary) {
  SampleHeader header;
  std::ranges::copy(kSampleMagic, header.magic.begin());
  header.token_bytes = static_cast<int32_t>(sample_width(vocabulary));
  header.vocabulary = vocabulary;
  return header;
}

}  // namespace

bool is_sample_file(const std::filesystem::path& path) {
  const FileReader file(path);
  std::array<char, kSampleMagic.size()> begin{};
  if (file.size() < static_cast<int64_t>(sizeof(SampleHeader))) return false;
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return std::ranges::equal(begin, kSampleMagic);
}

SampleFile SampleFile::open(const std::filesystem::path& path) {
  SampleFile out{FileReader(path)};
  out.read_header();
  out.check_ends();
  return out;
}

void SampleFile::read_header() {
  const std::string name = path().string();
  SampleHeader h;
  if (file_.size() < static_cast<int64_t>(sizeof h))
    throw bad_input("{}: truncated: a header of samples is {} bytes, the file has {}", name,
                    sizeof h, file_.size());
  file_.read(0, bytes_of(h));
  if (!std::ranges::equal(h.magic, kSampleMagic))
    throw bad_input("{} does not begin as a file of samples", name);
  if (h.version != kSamplesVersion)
    throw bad_input("{}: version {} of samples; this is read: {}", name, h.version,
                    kSamplesVersion);
  const bool counts = h.tokens > 0 && h.samples > 0 && h.vocabulary > 0 && h.samples <= h.tokens &&
                      h.tokens <= file_.size() && h.lines >= 0 && h.empty >= 0 && h.bad >= 0;
  if (!counts || (h.token_bytes != 2 && h.token_bytes != 4))
    throw bad_input("{}: its header counts {} tokens of {} bytes in {} samples", name, h.tokens,
                    h.token_bytes, h.samples);
  tokens_ = h.tokens;
  samples_ = h.samples;
  vocabulary_ = h.vocabulary;
  token_bytes_ = h.token_bytes;
  lines_ = {.lines = h.lines, .empty = h.empty, .bad = h.bad};
  if (const int64_t want = ends_offset() + samples_ * kEndBytes; want != file_.size())
    throw bad_input("{}: {} samples of {} tokens need {} bytes, the file has {}", name, samples_,
                    tokens_, want, file_.size());
}

int64_t SampleFile::ends_offset() const {
  return round_up(static_cast<int64_t>(sizeof(SampleHeader)) + tokens_ * token_bytes_, kEndBytes);
}

std::vector<int64_t> SampleFile::ends(int64_t first, int64_t count) const {
  std::vector<int64_t> out(static_cast<size_t>(std::min(count, samples_ - first)));
  file_.read(ends_offset() + first * kEndBytes, std::as_writable_bytes(std::span(out)));
  return out;
}

void SampleFile::check_ends() const {
  int64_t last = 0;
  for (int64_t first = 0; first < samples_; first += kEndsAtOnce) {
    for (const int64_t end : ends(first, kEndsAtOnce)) {
      if (end <= last || end > tokens_)
        throw bad_input("{}: a sample begins at token {} and ends at {} of {}", path().string(),
                        last, end, tokens_);
      last = end;
    }
  }
  if (last != tokens_)
    throw bad_input("{}: the samples end at token {} of {}", path().string(), last, tokens_);
}

template <typename Word>
void SampleFile::copy_as(int64_t begin, std::span<int32_t> out) const {
  std::array<Word, 4096> buffer;
  int64_t at =
      static_cast<int64_t>(sizeof(SampleHeader)) + begin * static_cast<int64_t>(sizeof(Word));
  while (!out.empty()) {
    const auto piece = std::span(buffer).first(std::min(buffer.size(), out.size()));
    file_.read(at, std::as_writable_bytes(piece));
    std::ranges::copy(piece, out.begin());
    at += static_cast<int64_t>(piece.size_bytes());
    out = out.subspan(piece.size());
  }
}

void SampleFile::copy(int64_t begin, std::span<int32_t> out) const {
  if (begin < 0 || begin > tokens_ - static_cast<int64_t>(out.size()))
    throw internal_error("{}: tokens {} to {} of {}", path().string(), begin,
                         begin + static_cast<int64_t>(out.size()), tokens_);
  if (token_bytes_ == 2)
    copy_as<int16_t>(begin, out);
  else
    copy_as<int32_t>(begin, out);
}

void SampleFile::each(
    const std::function<void(int64_t begin, std::span<const int32_t> words)>& visit) const {
  std::vector<int32_t> words;
  int64_t begin = 0;
  for (int64_t first = 0; first < samples_; first += kEndsAtOnce) {
    for (const int64_t end : ends(first, kEndsAtOnce)) {
      words.resize(static_cast<size_t>(end - begin));
      copy(begin, words);
      visit(begin, words);
      begin = end;
    }
  }
}

SampleFileWriter::SampleFileWriter(const std::filesystem::path& path, int64_t vocabulary)
    : file_(path), vocabulary_(vocabulary) {
  SampleHeader header = sample_header(vocabulary);
  file_.write(bytes_of(header));
}

void SampleFileWriter::write(std::span<const int32_t> words) {
  if (words.empty()) throw internal_error("{}: a sample without tokens", file_.target().string());
  ends_.push_back(tokens() + static_cast<int64_t>(words.size()));
  if (sample_width(vocabulary_) == 4) return file_.write(std::as_bytes(words));
  narrow_.assign(words.begin(), words.end());
  file_.write(std::as_bytes(std::span(narrow_)));
}

void SampleFileWriter::commit(const SampleLines& lines) {
  constexpr std::array<std::byte, kEndBytes> kZeros{};
  const auto over = static_cast<size_t>(file_.written() % kEndBytes);
  if (over > 0) file_.write(std::span(kZeros).first(kZeros.size() - over));
  file_.write(std::as_bytes(std::span(ends_)));
  SampleHeader header = sample_header(vocabulary_);
  header.tokens = tokens();
  header.samples = samples();
  header.lines = lines.lines;
  header.empty = lines.empty;
  header.bad = lines.bad;
  file_.rewrite(0, bytes_of(header));
  file_.commit();
}

}  // namespace snug
