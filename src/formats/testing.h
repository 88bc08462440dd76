// For tests of what reads and writes files: a directory that goes away with the test, and a check
// on errors.
//
//   TempDir dir;
//   write_bytes(dir / "a.bin", "\1\2");
//   expect_error(ExitCode::bad_input, "a.bin holds 2 bytes",
//                [&] { TokenFile::open(dir / "a.bin"); });
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace snug::testing {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "snug-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw internal_error("cannot make {}", name);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Writing beyond this many bytes of a file fails, as it does on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

// The names in a directory, sorted: what a failed write must leave as it was.
inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// All of a tensor (safetensors.h), to compare small ones.
template <typename Tensor>
std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.bytes));
  tensor.read(0, bytes);
  return bytes;
}

// A field of a protocol buffer: a number or the bytes of a text or message.
struct ProtoField {
  uint64_t number = 0;
  uint64_t value = 0;
  std::string_view bytes{};
};

// The fields of a message in their order. What is no message fails the test.
inline std::vector<ProtoField> proto_fields(std::string_view message) {
  std::vector<ProtoField> fields;
  const auto byte = [&]() -> uint64_t {
    if (message.empty()) {
      ADD_FAILURE() << "a message ends within a field";
      return 0;
    }
    const auto first = static_cast<unsigned char>(message[0]);
    message.remove_prefix(1);
    return first;
  };
  const auto varint = [&] {
    uint64_t value = 0, next = 0x80;
    for (int bits = 0; next >= 0x80 && bits < 64; bits += 7) {
      next = byte();
      value |= (next & 0x7F) << bits;
    }
    return value;
  };
  while (!message.empty()) {
    const uint64_t tag = varint();
    ProtoField& field = fields.emplace_back(ProtoField{.number = tag >> 3});
    const uint64_t wire = tag & 7;
    if (wire == 0 || wire == 2) field.value = varint();
    if (wire == 1 || wire == 5)
      for (int i = 0; i < (wire == 1 ? 8 : 4); ++i) field.value |= byte() << (8 * i);
    if (wire == 2) {
      EXPECT_LE(field.value, message.size());
      field.bytes = message.substr(0, field.value);
      message.remove_prefix(field.bytes.size());
    }
    if (wire == 3 || wire == 4 || wire > 5) ADD_FAILURE() << "no field of type " << wire;
    if (::testing::Test::HasFailure()) break;
  }
  return fields;
}

template <typename Action>
void expect_error(ExitCode code, std::string_view part, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), ::testing::HasSubstr(std::string(part)));
  }
}

}  // namespace snug::testing
