#include "formats/safetensors_writer.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/safetensors_checkpoint.h"
#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::names_in;
using testing::TempDir;
using testing::write_bytes;

// A tensor of `n` bytes-wide elements filled with one character, given in two pieces.
TensorToWrite filled(std::string name, Type type, char with) {
  return {std::move(name), type, [type, with](const ByteSink& sink) {
            const std::string bytes(static_cast<size_t>(type.bytes()), with);
            const auto all = std::as_bytes(std::span(bytes));
            sink(all.first(bytes.size() / 2));
            sink(all.subspan(bytes.size() / 2));
          }};
}

std::vector<TensorToWrite> three_tensors() {
  return {filled("a", {Dtype::bf16, {3}}, 'a'), filled("b", {Dtype::f32, {2, 2}}, 'b'),
          filled("c", {Dtype::i8, {5}}, 'c')};
}

void expect_three_tensors(const CheckpointReader& reader) {
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a", "b", "c"}));
  for (const TensorToWrite& tensor : three_tensors()) {
    const TensorEntry* entry = reader.find(tensor.name);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->dtype, tensor.type.dtype);
    EXPECT_EQ(entry->shape, tensor.type.shape);
    const auto expected = static_cast<std::byte>(tensor.name[0]);
    for (const std::byte b : testing::bytes_of(*entry)) EXPECT_EQ(b, expected);
  }
}

TEST(SafetensorsWriter, WritesOneReadableFile) {
  TempDir dir;
  write_checkpoint(dir.path(), three_tensors());
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"model.safetensors"}));
  expect_three_tensors(CheckpointReader(dir.path()));
  expect_three_tensors(CheckpointReader(dir / "model.safetensors"));
  const SafetensorsFile file(dir / "model.safetensors");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
}

TEST(SafetensorsWriter, PadsTheHeaderAndAlignsEveryTensor) {
  TempDir dir;
  write_safetensors(dir / "x.safetensors", three_tensors());
  const std::string bytes = read_file(dir / "x.safetensors");
  EXPECT_EQ(bytes[0] % 8, 0);
  const SafetensorsFile file(dir / "x.safetensors");
  for (const TensorEntry& tensor : file.tensors()) {
    EXPECT_EQ(tensor.begin % size_of(*tensor.dtype), 0) << tensor.name;
  }
}

TEST(SafetensorsWriter, CutsShardsAndWritesTheirIndex) {
  TempDir dir;
  write_checkpoint(dir.path(), three_tensors(), 11);
  EXPECT_EQ(names_in(dir.path()),
            (std::vector<std::string>{
                "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  const auto index = nlohmann::json::parse(read_file(dir / "model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 27);
  EXPECT_EQ(index["weight_map"]["c"], "model-00003-of-00003.safetensors");
  EXPECT_TRUE(has_weights(dir.path()));
  expect_three_tensors(CheckpointReader(dir.path()));
}

TEST(SafetensorsWriter, LeavesNothingWhenATensorFails) {
  TempDir dir;
  std::vector<TensorToWrite> tensors = three_tensors();
  tensors.push_back({"d", {Dtype::i8, {4}}, [](const ByteSink&) { throw device_error("gone"); }});
  expect_error(ExitCode::device, "gone", [&] { write_checkpoint(dir.path(), tensors, 11); });
  EXPECT_TRUE(names_in(dir.path()).empty());
}

TEST(SafetensorsWriter, FailureKeepsOldFile) {
  TempDir dir;
  write_checkpoint(dir.path(), three_tensors());
  const std::vector<TensorToWrite> short_one{{"d", {Dtype::i8, {4}}, [](const ByteSink&) {}}};
  expect_error(ExitCode::internal, "gave -4 bytes too many",
               [&] { write_checkpoint(dir.path(), short_one); });
  expect_three_tensors(CheckpointReader(dir.path()));
}

TEST(SafetensorsWriter, RefusesANameGivenTwice) {
  TempDir dir;
  const std::vector<TensorToWrite> twins{filled("a", {Dtype::i8, {1}}, 'a'),
                                         filled("a", {Dtype::i8, {1}}, 'a')};
  expect_error(ExitCode::internal, "tensor a is saved twice",
               [&] { write_checkpoint(dir.path(), twins); });
}

TEST(SafetensorsWriter, NamesUnwritablePath) {
  TempDir dir;
  expect_error(ExitCode::bad_input, "cannot write",
               [&] { write_checkpoint(dir / "none", three_tensors()); });
  const testing::FileSizeLimit full(100);
  expect_error(ExitCode::bad_input, "model.safetensors: File too large",
               [&] { write_checkpoint(dir.path(), three_tensors()); });
  EXPECT_TRUE(names_in(dir.path()).empty());
}

class CheckpointReaderTest : public ::testing::Test {
 protected:
  CheckpointReaderTest() { write_checkpoint(dir_.path(), three_tensors(), 11); }

  void expect_refused(std::string_view part) {
    expect_error(ExitCode::bad_input, part, [&] { CheckpointReader reader(dir_.path()); });
  }
  void write_index(std::string_view text) { write_bytes(dir_ / kWeightsIndexFile, text); }

  TempDir dir_;
};

TEST_F(CheckpointReaderTest, RefusesADamagedIndex) {
  write_index("{");
  expect_refused("is not valid JSON");
  write_index("[]");
  expect_refused("has no weight_map");
  write_index(R"({"weight_map":{"a":1}})");
  expect_refused("the file of tensor a is not a string");
}

TEST_F(CheckpointReaderTest, RefusesShardsInOtherDirectories) {
  for (const char* name :
       {"../x.safetensors", "/x.safetensors", "a\\\\x.safetensors", "", "x.bin"}) {
    write_index(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name));
    expect_refused("is not the name of a .safetensors file next to it");
  }
}

TEST_F(CheckpointReaderTest, RefusesMissingShardsAndTensors) {
  write_index(R"({"weight_map":{"z":"model-00001-of-00003.safetensors"}})");
  expect_refused("lists tensor z in model-00001-of-00003.safetensors, which does not hold it");
  write_index(R"({"weight_map":{"z":"model-00009-of-00003.safetensors"}})");
  expect_refused("model-00009-of-00003.safetensors: No such file");
}

TEST_F(CheckpointReaderTest, ReportsDirectoryWithoutWeights) {
  TempDir empty;
  EXPECT_FALSE(has_weights(empty.path()));
  EXPECT_FALSE(has_weights(empty / "none"));
  expect_error(ExitCode::bad_input, "has neither", [&] { CheckpointReader reader(empty.path()); });
  EXPECT_NO_THROW(refuse_other_weights(empty.path()));
  write_bytes(empty / "pytorch_model.bin", "pickle");
  try {
    CheckpointReader reader(empty.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.hint(), ::testing::HasSubstr("pickle"));
  }
}

TEST(OtherWeights, AreNamedWithAdvice) {
  struct Case {
    const char *file, *is, *hint;
  };
  for (const Case& c :
       {Case{"pytorch_model.bin", "a Python pickle", "safe_serialization=True"},
        Case{"pytorch_model-00001-of-00002.bin", "a Python pickle", "save_pretrained"},
        Case{"model-q4_0.gguf", "GGUF", "model.safetensors"},
        Case{"adapter_model.safetensors", "an adapter (LoRA)", "merge_and_unload"},
        Case{"adapter_model.bin", "an adapter (LoRA)", "merge_and_unload"},
        Case{"model-00001-of-00002.safetensors", "shards without their index",
             "model.safetensors.index.json"},
        Case{"tf_model.h5", "TensorFlow", "save_pretrained"}}) {
    TempDir dir;
    write_bytes(dir / c.file, "weights");
    try {
      refuse_other_weights(dir.path());
      ADD_FAILURE() << c.file;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(c.file));
      EXPECT_THAT(error.what(), ::testing::HasSubstr(c.is));
      EXPECT_THAT(error.hint(), ::testing::HasSubstr(c.hint));
      EXPECT_THAT(error.hint(), ::testing::HasSubstr("--init scratch"));
    }
    write_bytes(dir / kSingleWeightsFile, "weights");
    EXPECT_NO_THROW(refuse_other_weights(dir.path())) << "there is something to read";
  }
}

}  // namespace
}  // namespace snug
