#include "formats/tensorboard_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "base/error.h"
#include "formats/protobuf.h"

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

// Event.wall_time = 1, .step = 2, .file_version = 3, .summary = 5.
ProtoMessage event_head(double wall_time) {
  ProtoMessage event;
  event.real64(1, wall_time);
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
  append_little_endian(record, event.size(), 8);
  append_little_endian(record, masked_crc32c(record), 4);
  record += event;
  append_little_endian(record, masked_crc32c(event), 4);
  return record;
}

// Summary.value = 1, in it .tag = 1 and .simple_value = 2.
std::string scalar_event(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  ProtoMessage summary;
  for (const Scalar& scalar : scalars) {
    ProtoMessage value;
    value.text(1, scalar.tag).real32(2, static_cast<float>(scalar.value));
    summary.message(1, value);
  }
  return event_head(wall_time).integer(2, step).message(5, summary).bytes();
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory) {
  const double now = seconds_since_1970();
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  path_ = directory / fmt::format("events.out.tfevents.{:.0f}.snug.{}", now, ::getpid());
  file_.open(path_, std::ios::binary);
  const ProtoMessage event = event_head(now).text(3, "brain.Event:2");
  file_ << tensorboard_record(event.bytes()) << std::flush;
  if (!file_) throw usage_error("--tensorboard {} cannot be written to", directory.string());
}

bool TensorboardWriter::scalars(int64_t step, std::span<const Scalar> scalars) {
  file_ << tensorboard_record(scalar_event(seconds_since_1970(), step, scalars)) << std::flush;
  return static_cast<bool>(file_);
}

}  // namespace snug
