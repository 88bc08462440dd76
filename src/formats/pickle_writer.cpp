#include "formats/pickle_writer.h"

#include <bit>
#include <limits>

#include "base/error.h"

namespace snug {
namespace {

constexpr int64_t kBatch = 1000;
constexpr char kAppends = 'e', kSetItems = 'u', kMark = '(';

template <typename T>
void add_little_endian(std::string& to, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    to += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
}

}  // namespace

PickleWriter::PickleWriter() : bytes_("\x80\x02") {}

// Values of a list are appended, and keys with their values set, so many at a time.
void PickleWriter::next_batch(Open& open, char opcode) {
  if (open.items % kBatch == 0) {
    if (open.items > 0) bytes_ += opcode;
    bytes_ += kMark;
  }
  ++open.items;
}

void PickleWriter::item() {
  if (!open_.empty() && !open_.back().dict) next_batch(open_.back(), kAppends);
}

void PickleWriter::key(std::string_view name) {
  if (open_.empty() || !open_.back().dict) throw internal_error("a key outside of a dict");
  next_batch(open_.back(), kSetItems);
  text(name);
}

void PickleWriter::begin_dict() {
  item();
  bytes_ += '}';
  open_.push_back({.dict = true});
}

void PickleWriter::begin_list() {
  item();
  bytes_ += ']';
  open_.push_back({.dict = false});
}

void PickleWriter::end() {
  if (open_.empty()) throw internal_error("nothing that could end");
  if (open_.back().items > 0) bytes_ += open_.back().dict ? kSetItems : kAppends;
  open_.pop_back();
}

void PickleWriter::integer(int64_t value) {
  item();
  if (value >= 0 && value <= 0xFF) {
    bytes_ += 'K';
    add_little_endian(bytes_, static_cast<uint8_t>(value));
  } else if (value >= 0 && value <= 0xFFFF) {
    bytes_ += 'M';
    add_little_endian(bytes_, static_cast<uint16_t>(value));
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    bytes_ += 'J';
    add_little_endian(bytes_, static_cast<int32_t>(value));
  } else {
    bytes_ += "\x8a\x08";
    add_little_endian(bytes_, value);
  }
}

void PickleWriter::real(double value) {
  item();
  bytes_ += 'G';
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) bytes_ += static_cast<char>(bits >> shift & 0xFF);
}

void PickleWriter::boolean(bool value) {
  item();
  bytes_ += value ? '\x88' : '\x89';
}

void PickleWriter::none() {
  item();
  bytes_ += 'N';
}

void PickleWriter::put(uint32_t number) {
  if (number <= 0xFF) {
    bytes_ += 'q';
    bytes_ += static_cast<char>(number);
  } else {
    bytes_ += 'r';
    add_little_endian(bytes_, number);
  }
}

void PickleWriter::get(uint32_t number) {
  if (number <= 0xFF) {
    bytes_ += 'h';
    bytes_ += static_cast<char>(number);
  } else {
    bytes_ += 'j';
    add_little_endian(bytes_, number);
  }
}

void PickleWriter::text(std::string_view value) {
  item();
  if (const auto found = texts_.find(value); found != texts_.end()) return get(found->second);
  bytes_ += 'X';
  add_little_endian(bytes_, static_cast<uint32_t>(value.size()));
  bytes_ += value;
  texts_.emplace(value, remember());
}

void PickleWriter::pair(int64_t first, int64_t second) {
  item();
  open_.push_back({.dict = true});  // what follows is no item of the list
  integer(first);
  integer(second);
  open_.pop_back();
  bytes_ += '\x86';
}

uint32_t PickleWriter::remember() {
  put(remembered_);
  return remembered_++;
}

void PickleWriter::again(uint32_t remembered) {
  item();
  get(remembered);
}

std::string PickleWriter::finish() {
  if (!open_.empty()) throw internal_error("a dict or a list has not ended");
  return bytes_ + '.';
}

}  // namespace snug
