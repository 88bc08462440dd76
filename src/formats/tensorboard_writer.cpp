#include "formats/tensorboard_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

#include "base/error.h"

namespace snug {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest & 1) != 0 ? rest >> 1 ^ 0x82F63B78U : rest >> 1;
    table[byte] = rest;
  }
  return table;
}

void add_bytes_of(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

void add_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

// Fields of a protocol buffer: a number and how the value is written.
constexpr uint64_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
void add_tag(std::string& to, uint64_t field, uint64_t wire) { add_varint(to, field << 3 | wire); }

void add_text(std::string& to, uint64_t field, std::string_view text) {
  add_tag(to, field, kBytes);
  add_varint(to, text.size());
  to += text;
}

// Event.wall_time = 1, .step = 2, .file_version = 3, .summary = 5.
std::string event_head(double wall_time) {
  std::string event;
  add_tag(event, 1, kFixed64);
  add_bytes_of(event, std::bit_cast<uint64_t>(wall_time), 8);
  return event;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t masked_crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ crc >> 8;
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8U;
}

std::string tensorboard_record(std::string_view event) {
  std::string record;
  add_bytes_of(record, event.size(), 8);
  add_bytes_of(record, masked_crc32c(record), 4);
  record += event;
  add_bytes_of(record, masked_crc32c(event), 4);
  return record;
}

// Summary.value = 1, in it .tag = 1 and .simple_value = 2.
std::string scalar_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    add_text(value, 1, scalar.tag);
    add_tag(value, 2, kFixed32);
    add_bytes_of(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)), 4);
    add_text(summary, 1, value);
  }
  std::string event = event_head(wall_time);
  add_tag(event, 2, kVarint);
  add_varint(event, static_cast<uint64_t>(step));
  add_text(event, 5, summary);
  return event;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory) {
  const double now = seconds_since_1970();
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  path_ = directory / fmt::format("events.out.tfevents.{:.0f}.snug.{}", now, ::getpid());
  file_.open(path_, std::ios::binary);
  std::string event = event_head(now);
  add_text(event, 3, "brain.Event:2");
  file_ << tensorboard_record(event) << std::flush;
  if (!file_) throw usage_error("--tensorboard {} cannot be written to", directory.string());
}

bool TensorboardWriter::scalars(int64_t step, std::span<const Scalar> scalars) {
  file_ << tensorboard_record(scalar_event(seconds_since_1970(), step, scalars)) << std::flush;
  return static_cast<bool>(file_);
}

}  // namespace snug
