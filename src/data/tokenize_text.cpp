#include "data/tokenize_text.h"

#include <algorithm>
#include <deque>
#include <string>

#include "tokenizers/text_encoder.h"
#include "tokenizers/utf8.h"

namespace snug {
namespace {

constexpr int64_t kBatchBytes = int64_t{16} << 20;

// Where the last character begins that may go on in what follows.
size_t end_of_whole_characters(std::string_view bytes) {
  size_t at = bytes.size();
  for (int back = 0; back < 4 && at > 0; ++back) {
    const auto c = static_cast<unsigned char>(bytes[--at]);
    if (c >= 0xc0) return at;
    if (c < 0x80) break;
  }
  return bytes.size();
}

// Documents, or as much of the last one as fits, that are encoded together.
class Batches {
 public:
  Batches(const Tokenizer& tokenizer, int32_t end_of_text, TokenFileWriter& out)
      : encoder_(tokenizer), end_of_text_(end_of_text), out_(out) {}

  void add(const TextFile& file) {
    const FileReader reader = open_unchanged(file);
    std::string raw;
    documents_.push_back({});
    for (int64_t at = 0; at < file.size;) {
      const int64_t n = std::min(kBatchBytes, file.size - at);
      const size_t before = raw.size();
      raw.resize(before + static_cast<size_t>(n));
      reader.read(at, std::as_writable_bytes(std::span(raw).subspan(before)));
      at += n;
      add_bytes(raw, at == file.size);
    }
  }
  void flush() {
    std::vector<TextEncoder::Text> texts;
    for (const Document& d : documents_) texts.push_back({d.text, d.begins, d.ends});
    std::vector<TextEncoder::Encoded> encoded = encoder_.encode(texts);
    for (size_t i = 0; i < documents_.size(); ++i) write(documents_[i], encoded[i]);
    Document rest = documents_.empty() ? Document{.ends = true} : std::move(documents_.back());
    const size_t used = encoded.empty() ? 0 : encoded.back().used;
    documents_.clear();
    bytes_ = 0;
    if (rest.ends) return;
    rest.text.erase(0, used);
    rest.begins = rest.begins && used == 0;
    documents_.push_back(std::move(rest));
  }

 private:
  struct Document {
    std::string text;
    bool begins = true, ends = false;
  };

  // Takes what is whole from `raw`.
  void add_bytes(std::string& raw, bool ends) {
    const size_t whole = ends ? raw.size() : end_of_whole_characters(raw);
    std::string buffer;
    documents_.back().text += valid_utf8(std::string_view(raw).substr(0, whole), buffer);
    documents_.back().ends = ends;
    bytes_ += static_cast<int64_t>(whole);
    raw.erase(0, whole);
    if (bytes_ >= kBatchBytes) flush();
  }
  void write(const Document& document, const TextEncoder::Encoded& encoded) {
    if (document.begins && !encoded.ids.empty() && out_.count() > 0)
      out_.write(std::span(&end_of_text_, 1));
    for (const std::vector<int32_t>& ids : encoded.ids) out_.write(ids);
  }

  TextEncoder encoder_;
  int32_t end_of_text_;
  TokenFileWriter& out_;
  std::deque<Document> documents_;
  int64_t bytes_ = 0;
};

}  // namespace

void tokenize_text(std::span<const TextFile> files, const Tokenizer& tokenizer, int32_t end_of_text,
                   TokenFileWriter& out,
                   const std::function<void(const TokenizeProgress&)>& progress) {
  TokenizeProgress done;
  for (const TextFile& file : files) done.all_bytes += file.size;
  Batches batches(tokenizer, end_of_text, out);
  for (const TextFile& file : files) {
    batches.add(file);
    done.bytes += file.size;
    done.tokens = out.count();
    if (progress) progress(done);
  }
  batches.flush();
  done.tokens = out.count();
  if (progress) progress(done);
}

}  // namespace snug
