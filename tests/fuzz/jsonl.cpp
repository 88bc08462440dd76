// A chat_template, up to a zero byte, and JSONL after it: lines are the same in pieces of any size,
// and a rendered conversation marks in order what is learned of it.
#include <algorithm>

#include "data/chat_format.h"
#include "formats/json_lines.h"
#include "fuzz/input.h"

namespace {

using namespace snug;

std::vector<std::string> lines_of(const std::filesystem::path& path, int64_t at_once) {
  LineReader reader{FileReader(path)};
  LineReader::Batch batch;
  std::vector<std::string> out;
  while (reader.read(at_once, batch)) {
    for (const Line& line : batch.lines)
      out.push_back(std::to_string(line.number) + ":" + std::string(line.text));
  }
  return out;
}

void check(const Rendered& chat) {
  size_t at = 0;
  for (const auto& [begin, end] : chat.learned) {
    fuzz::require(at <= begin && begin < end && end <= chat.text.size(), "spans are out of order");
    at = end;
  }
  fuzz::require(std::ranges::is_sorted(chat.cuts), "cuts are out of order");
  fuzz::require(chat.cuts.empty() || chat.cuts.back() < chat.text.size(), "a cut is outside");
}

void render(const ChatFormat& format, const std::string& line) {
  fuzz::parse_or_refuse([&] {
    const JsonSample sample = parse_sample(std::string_view(line).substr(line.find(':') + 1));
    if (sample.kind == JsonSample::Kind::chat && !sample.is_empty())
      check(format.render(sample.messages));
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const size_t end = std::min(input.find('\0'), input.size());
  const auto path = fuzz::as_file(input.substr(std::min(end + 1, input.size())));
  const std::vector<std::string> lines = lines_of(path, 1 << 20);
  fuzz::require(lines_of(path, 7) == lines, "lines depend on the size of pieces");
  ChatFormat format;
  fuzz::parse_or_refuse([&] { format = parse_chat_template(input.substr(0, end), "template"); });
  for (const std::string& line : lines) render(format, line);
  return 0;
}
