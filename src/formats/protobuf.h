// A message of a protocol buffer as its bytes: fields by number, in the order in which they are added.
//
//   ProtoMessage value;
//   value.text(1, "loss").real32(2, 0.5F);
//   ProtoMessage summary;
//   summary.message(1, value);
//   file << summary.bytes();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

// The lowest bytes of a number, the lowest first.
void append_little_endian(std::string& to, uint64_t value, int bytes);

class ProtoMessage {
 public:
  // Of every integer type but those that are fixed or zigzag; a negative number as 64 bits.
  ProtoMessage& integer(uint32_t field, int64_t value);
  ProtoMessage& fixed64(uint32_t field, uint64_t value);
  ProtoMessage& real32(uint32_t field, float value);
  ProtoMessage& real64(uint32_t field, double value);
  ProtoMessage& text(uint32_t field, std::string_view value);  // UTF-8, where the field is a string
  ProtoMessage& message(uint32_t field, const ProtoMessage& value) {
    return text(field, value.bytes());
  }

  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  void varint(uint64_t value);
  void tag(uint32_t field, uint32_t wire) { varint(uint64_t{field} << 3 | wire); }

  std::string bytes_;
};

}  // namespace snug
