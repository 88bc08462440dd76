#include "data/tokenize_samples.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/units.h"
#include "formats/json_lines.h"

namespace snug {
namespace {

constexpr int64_t kBytesAtOnce = int64_t{16} << 20;

struct EncodedLine {
  std::vector<int32_t> words;  // none: it is empty
  std::string bad;             // what is wrong with it
};

class SampleTokenizer {
 public:
  SampleTokenizer(const SampleFormat& format, int64_t may_skip, SampleFileWriter& out)
      : format_(format), may_skip_(may_skip), out_(out) {}

  // Calls `done` after every piece.
  template <typename Done>
  void add(const TextFile& file, const Done& done) {
    LineReader reader(open_unchanged(file));
    LineReader::Batch batch;
    std::vector<EncodedLine> encoded;
    while (reader.read(kBytesAtOnce, batch)) {
      encoded.assign(batch.lines.size(), {});
      for_each_in_parallel(batch.lines.size(),
                           [&](size_t i) { encoded[i] = encode(batch.lines[i].text); });
      for (size_t i = 0; i < encoded.size(); ++i) write(file, batch.lines[i], encoded[i]);
      done();
    }
  }
  const SampleLines& lines() const { return lines_; }

 private:
  EncodedLine encode(std::string_view line) {
    std::unique_ptr<SampleEncoder> encoder = take();
    EncodedLine out;
    try {
      const JsonSample sample = parse_sample(line);
      if (!sample.is_empty()) encoder->encode(sample, out.words);
    } catch (const Error& error) {
      if (error.code() != ExitCode::bad_input) throw;
      out.bad = error.what();
    }
    give(std::move(encoder));
    return out;
  }

  void write(const TextFile& file, const Line& line, const EncodedLine& encoded) {
    ++lines_.lines;
    if (!encoded.bad.empty()) return skip(file, line, encoded.bad);
    if (encoded.words.empty()) {
      ++lines_.empty;
      return;
    }
    out_.write(encoded.words);
  }

  void skip(const TextFile& file, const Line& line, const std::string& why) {
    if (++lines_.bad <= may_skip_) return;
    throw bad_input(
        "{}:{}: {}{}", file.path.string(), line.number, why,
        may_skip_ == 0
            ? ""
            : fmt::format("; {} bad before it, and --skip-bad is {}",
                          may_skip_ == 1 ? "1 line is" : counted(may_skip_, "line") + " are",
                          may_skip_))
        .hint("correct the line, or pass over bad ones with --skip-bad N");
  }

  std::unique_ptr<SampleEncoder> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<SampleEncoder>(format_);
    std::unique_ptr<SampleEncoder> encoder = std::move(idle_.back());
    idle_.pop_back();
    return encoder;
  }
  void give(std::unique_ptr<SampleEncoder> encoder) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(encoder));
  }

  const SampleFormat& format_;
  int64_t may_skip_;
  SampleFileWriter& out_;
  SampleLines lines_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<SampleEncoder>> idle_;
};

}  // namespace

SampleLines tokenize_samples(std::span<const TextFile> files, const SampleFormat& format,
                             int64_t skip_bad, SampleFileWriter& out,
                             const std::function<void(const TokenizeProgress&)>& progress) {
  TokenizeProgress done;
  for (const TextFile& file : files) done.all_bytes += file.size;
  SampleTokenizer samples(format, skip_bad, out);
  for (const TextFile& file : files) {
    const int64_t before = done.bytes;
    const auto tell = [&] {
      done.bytes = std::min(done.bytes + kBytesAtOnce, before + file.size);
      done.tokens = out.tokens();
      if (progress) progress(done);
    };
    samples.add(file, tell);
    done.bytes = before + file.size;
  }
  const SampleLines& lines = samples.lines();
  if (out.samples() == 0) {
    throw bad_input("{}{}: no samples: {}, {} of them empty, {} bad", files[0].path.string(),
                    files.size() > 1 ? " and the other files" : "", counted(lines.lines, "line"),
                    lines.empty, lines.bad)
        .hint("a sample is an object on one line, with text, prompt and completion, or messages");
  }
  return lines;
}

}  // namespace snug
