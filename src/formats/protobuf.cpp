#include "formats/protobuf.h"

#include <bit>

namespace snug {
namespace {

// How a field's value is written.
constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

}  // namespace

void append_little_endian(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

void ProtoMessage::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

ProtoMessage& ProtoMessage::integer(uint32_t field, int64_t value) {
  tag(field, kVarint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::fixed64(uint32_t field, uint64_t value) {
  tag(field, kFixed64);
  append_little_endian(bytes_, value, 8);
  return *this;
}

ProtoMessage& ProtoMessage::real32(uint32_t field, float value) {
  tag(field, kFixed32);
  append_little_endian(bytes_, std::bit_cast<uint32_t>(value), 4);
  return *this;
}

ProtoMessage& ProtoMessage::real64(uint32_t field, double value) {
  return fixed64(field, std::bit_cast<uint64_t>(value));
}

ProtoMessage& ProtoMessage::text(uint32_t field, std::string_view value) {
  tag(field, kBytes);
  varint(value.size());
  bytes_ += value;
  return *this;
}

}  // namespace snug
