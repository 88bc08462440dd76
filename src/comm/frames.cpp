#include "comm/frames.h"

#include <cstring>

#include "base/error.h"

namespace snug {
namespace {

struct FrameHeader {
  uint32_t magic = 0x314a4753;  // "SGJ1" on a little-endian machine; others read another number
  uint32_t kind = 0;
  uint64_t size = 0;
};
static_assert(sizeof(FrameHeader) == 16);

template <typename T>
void append_raw(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

std::string frame_bytes(FrameKind kind, std::span<const std::string> fields) {
  FrameHeader header{.kind = static_cast<uint32_t>(kind)};
  for (const std::string& field : fields) header.size += sizeof(uint32_t) + field.size();
  std::string out;
  out.reserve(sizeof(header) + header.size);
  append_raw(out, header);
  for (const std::string& field : fields) {
    append_raw(out, static_cast<uint32_t>(field.size()));
    out += field;
  }
  return out;
}

std::vector<std::string> Frame::fields() const {
  std::vector<std::string> out;
  std::string_view rest = body;
  while (!rest.empty()) {
    uint32_t size = 0;
    if (rest.size() < sizeof(size)) throw bad_input("a message ends inside a field");
    std::memcpy(&size, rest.data(), sizeof(size));
    rest.remove_prefix(sizeof(size));
    if (size > rest.size())
      throw bad_input("a message has a field of {} bytes in {}", size, rest.size());
    out.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return out;
}

std::vector<std::string> Frame::fields(size_t count) const {
  std::vector<std::string> out = fields();
  if (out.size() != count)
    throw bad_input("a message of kind {} has {} fields, not {}", static_cast<uint32_t>(kind),
                    out.size(), count);
  return out;
}

std::optional<Frame> FrameReader::next(uint64_t limit) {
  FrameHeader header;
  const uint32_t magic = header.magic;
  // Checked as soon as it is there: an unknown peer need not send a whole header.
  if (std::memcmp(bytes_.data(), &magic, std::min(bytes_.size(), sizeof(magic))) != 0)
    throw bad_input("no message of Snug's begins like that");
  if (bytes_.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof(header));
  if (header.kind == 0 || header.kind > static_cast<uint32_t>(kLastFrameKind))
    throw bad_input("there is no message of kind {}", header.kind);
  if (header.size > limit)
    throw bad_input("a message of {} bytes, where {} are allowed", header.size, limit);
  if (bytes_.size() - sizeof(header) < header.size) return std::nullopt;
  Frame out{static_cast<FrameKind>(header.kind), bytes_.substr(sizeof(header), header.size)};
  bytes_.erase(0, sizeof(header) + header.size);
  return out;
}

}  // namespace snug
