// Long texts and many texts on all cores: texts are cut where the parts have the ids of the whole.
//
//   TextEncoder encoder(tokenizer);
//   for (auto& [used, ids] : encoder.encode(texts)) ...   // ids: a list for each part, in order
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace snug {

class TextEncoder {
 public:
  explicit TextEncoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  struct Text {
    std::string_view text;  // valid UTF-8
    bool begins = true;     // it is not the rest of an earlier one
    bool ends = true;       // nothing follows; else the last bytes may be left for later
  };
  struct Encoded {
    size_t used = 0;  // bytes of the text; the rest comes again, before what follows
    std::vector<std::vector<int32_t>> ids;
  };
  std::vector<Encoded> encode(std::span<const Text> texts);

 private:
  struct Job {
    size_t text = 0;  // index
    size_t begin = 0, end = 0;
    bool done = false;
    std::vector<int32_t> ids;
  };
  size_t cut_after(std::string_view text, size_t from) const;
  void cut(std::span<const Text> texts, size_t index, std::vector<Job>& jobs) const;
  void run(std::span<const Text> texts, Job& job);
  std::unique_ptr<Encoder> take();
  void give(std::unique_ptr<Encoder> encoder);

  const Tokenizer* tokenizer_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Encoder>> idle_;
};

}  // namespace snug
