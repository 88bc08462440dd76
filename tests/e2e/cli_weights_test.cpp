// Damaged and hostile weights at `train --init load`: refused before the first step, whatever the
// file says.
#include <cstring>

#include "cli_fixture.h"

namespace snug {
namespace {

class CliWeights : public Cli {
 protected:
  CliWeights() {
    const Ended run = snug("train tiny --data text.txt --seq 16 --steps 1 --out saved");
    EXPECT_EQ(run.code, 0) << run.err;
    whole_ = read_file(dir_ / "saved/model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, whole_.data(), sizeof length);
    header_ = nlohmann::json::parse(whole_.substr(8, length));
    data_ = whole_.substr(8 + length);
  }

  // The saved file, with this header in place of its own.
  static std::string file_of(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::string file(reinterpret_cast<const char*>(&length), sizeof length);
    return file + header + data;
  }
  void expect_bad(const std::string& file, const std::string& part) {
    write("saved/model.safetensors", file);
    expect_refused("train saved --init load --data text.txt --seq 16", ExitCode::bad_input, part);
  }
  void expect_bad_header(const nlohmann::json& header, const std::string& part) {
    expect_bad(file_of(header.dump(), data_), part);
  }
  // The header with one field of one tensor replaced.
  nlohmann::json with(const std::string& field, const nlohmann::json& value) const {
    nlohmann::json header = header_;
    header[kNorm][field] = value;
    return header;
  }

  static constexpr const char* kNorm = "model.norm.weight";
  std::string whole_, data_;
  nlohmann::json header_;
};

TEST_F(CliWeights, UndamagedFileLoads) {
  write("saved/model.safetensors", file_of(header_.dump(), data_));
  const Ended run = snug("train saved --init load --data text.txt --seq 16 --steps 1");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, ::testing::HasSubstr("weights: loaded from saved"));
}

TEST_F(CliWeights, Truncated) {
  expect_bad("", "model.safetensors");
  expect_bad(whole_.substr(0, 5), "5 bytes are too few");
  expect_bad(whole_.substr(0, 100), "truncated");
  expect_bad(whole_.substr(0, whole_.size() - 1), "ends at byte");
}

TEST_F(CliWeights, HostileHeaders) {
  expect_bad(std::string(8, '\xff') + "{}", "its header would be 18446744073709551615 bytes");
  expect_bad(file_of(R"({"a": )", data_), "not valid JSON");
  expect_bad(file_of("[]", data_), "the header is not a JSON object");
  expect_bad(file_of(std::string(100'000, '['), data_), "nests deeper");
  expect_bad(whole_ + "more", "the tensors end at byte");
}

TEST_F(CliWeights, OverlapsAndOffsetsBeyondTheFile) {
  nlohmann::json overlap = header_;
  overlap[kNorm]["data_offsets"] = {0, 24 * 4};
  expect_bad_header(overlap, "begins at byte");
  const auto end = static_cast<int64_t>(data_.size());
  expect_bad_header(with("data_offsets", {end, end + 96}), "ends at byte");
  expect_bad_header(with("data_offsets", {96, 0}), "begins at byte 96 after its end 0");
  expect_bad_header(with("data_offsets", {0, uint64_t{1} << 63}), "where a count is needed");
  expect_bad_header(with("data_offsets", {-96, 0}), "where a count is needed");
}

TEST_F(CliWeights, AbsurdShapes) {
  expect_bad_header(with("shape", {uint64_t{1} << 63}), "where a count is needed");
  expect_bad_header(with("shape", {int64_t{1} << 62, 4}), "absurdly large");
  expect_bad_header(with("shape", {int64_t{1} << 32, int64_t{1} << 32}), "absurdly large");
  expect_bad_header(with("shape", {23}), "but its offsets");
  expect_bad_header(with("shape", {4, 6}), "tensor model.norm.weight is [4,6], but the model's is");
}

TEST_F(CliWeights, WrongDtypes) {
  expect_bad_header(with("dtype", "I32"),
                    "tensor model.norm.weight is I32, which does not convert");
  expect_bad_header(with("dtype", "U32"), "unsupported dtype U32 for tensor model.norm.weight");
  expect_bad_header(with("dtype", "F33"), "has the unknown dtype F33");
}

TEST_F(CliWeights, MissingTensor) {
  nlohmann::json renamed = header_;
  renamed["another.weight"] = renamed[kNorm];
  renamed.erase(kNorm);
  expect_bad_header(renamed, "lacks 1 of the model's 21 tensors: model.norm.weight");
}

TEST_F(CliWeights, Shards) {
  nlohmann::json index{{"weight_map", nlohmann::json::object()}};
  for (const auto& [name, entry] : header_.items())
    if (name != "__metadata__") index["weight_map"][name] = "one.safetensors";
  std::filesystem::remove(dir_ / "saved/model.safetensors");
  write("saved/model.safetensors.index.json", index.dump());
  const std::string train = "train saved --init load --data text.txt --seq 16 --steps 1";
  expect_refused(train, ExitCode::bad_input, "saved/one.safetensors");
  write("saved/one.safetensors", whole_);
  EXPECT_EQ(snug(train).code, 0);
  index["weight_map"][kNorm] = "../../other.safetensors";
  write("saved/model.safetensors.index.json", index.dump());
  expect_refused(train, ExitCode::bad_input, "other.safetensors");
  write("saved/model.safetensors.index.json", "{\"weight_map\": ");
  expect_refused(train, ExitCode::bad_input, "index.json is not valid JSON: parse error");
}

}  // namespace
}  // namespace snug
