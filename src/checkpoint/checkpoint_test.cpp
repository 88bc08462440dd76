#include "checkpoint/checkpoint.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <map>

#include "base/half.h"
#include "base/testing.h"
#include "base/text.h"
#include "checkpoint/output_directory.h"
#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::names_in;
using testing::status_bytes;
using testing::TempDir;
using testing::write_bytes;

Value parameter(std::string name, Type type, std::vector<CheckpointPart> parts) {
  Value value{.name = std::move(name),
              .type = type,
              .category = Category::params,
              .scope = Scope::persistent};
  value.param = std::make_shared<Param>(Param{.checkpoint = std::move(parts)});
  return value;
}

// A packed parameter of two tensors, a plain one, and state that is not part of the saved model.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    qk_ = add(parameter("qk", {Dtype::f32, {3, 2}},
                        {{"model.q.weight", {2, 2}, 0}, {"model.k.weight", {1, 2}, 4}}),
              {1, 2, 3, 4, 5, 6});
    norm_ = add(parameter("norm", {Dtype::f32, {2}}, {{"model.norm.weight", {2}, 0}}), {7, 8});
    add(parameter("adam.m", {Dtype::f32, {1}}, {}), {9});
  }

  ValueId add(Value value, std::vector<float> content) {
    const ValueId id = module_.add(std::move(value));
    memory_[id] = std::move(content);
    return id;
  }

  SaveOptions options(std::string_view name = "out") const {
    return {.directory = dir_ / name, .config_json = "{\"model_type\": \"llama\"}"};
  }
  void save(const SaveOptions& o) {
    save_model(
        module_, [&](const ValuePart& part, const LookAtPiece& visit) { give(part, visit); }, o);
  }
  void load(const std::filesystem::path& from, const Spellings& spellings = {}) {
    load_model(
        module_, [&](const ValuePart& part, const MakePiece& fill) { give(part, fill); },
        CheckpointReader(from), spellings);
  }
  // Pieces of one element: nothing is right only where a tensor comes as a whole.
  template <typename Visit>
  void give(const ValuePart& part, const Visit& visit) {
    const auto bytes = std::as_writable_bytes(std::span(memory_.at(part.value)))
                           .subspan(static_cast<size_t>(part.offset));
    for (size_t at = 0; at < static_cast<size_t>(part.bytes); at += sizeof(float))
      visit(bytes.subspan(at, sizeof(float)));
  }
  void clear() {
    for (auto& [id, content] : memory_) std::fill(content.begin(), content.end(), 0.0F);
  }

  TempDir dir_;
  Module module_;
  std::map<ValueId, std::vector<float>> memory_;
  ValueId qk_, norm_;
};

// One tensor of the given type from numbers.
template <typename T>
TensorToWrite tensor_of(std::string name, Dtype dtype, Shape shape, std::vector<float> numbers) {
  std::vector<T> elements(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) elements[i] = static_cast<T>(numbers[i]);
  return {std::move(name), {dtype, shape}, [elements](const ByteSink& sink) {
            sink(std::as_bytes(std::span(elements)));
          }};
}

TEST_F(CheckpointTest, SavedDirectoryLoads) {
  save(options());
  EXPECT_EQ(
      names_in(dir_ / "out"),
      (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors"}));
  EXPECT_EQ(read_file(dir_ / "out/config.json"), "{\"model_type\": \"llama\"}");
  EXPECT_EQ(CheckpointReader(dir_ / "out").find("model.k.weight")->shape, (Shape{1, 2}));
  const auto before = memory_;
  clear();
  load(dir_ / "out");
  EXPECT_EQ(memory_[qk_], before.at(qk_));
  EXPECT_EQ(memory_[norm_], before.at(norm_));
}

TEST_F(CheckpointTest, ReportsValuesLoadedWhole) {
  EXPECT_EQ(saved_bytes(module_), 8 * 4);
  EXPECT_EQ(loaded_values(module_), (std::set<ValueId>{qk_, norm_})) << "adam.m is not saved";
  add(parameter("half", {Dtype::f32, {2}}, {{"half", {1}, 0}}), {0, 0});
  EXPECT_EQ(loaded_values(module_), (std::set<ValueId>{qk_, norm_}));
}

// Two heads of two: the parameter has queries, keys and values, the file a head's together.
TEST_F(CheckpointTest, TensorMayReorderRows) {
  const std::vector<float> mine{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::vector<float> in_file{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11};
  std::vector<CheckpointPart> pieces;
  for (const int64_t offset : {0, 4, 8, 2, 6, 10})
    pieces.push_back({"query_key_value", {2, 1}, offset});
  const ValueId qkv = add(parameter("qkv", {Dtype::f32, {12, 1}}, pieces), mine);
  EXPECT_EQ(loaded_values(module_), (std::set<ValueId>{qk_, norm_, qkv}));
  save(options());
  const CheckpointReader saved(dir_ / "out");
  const TensorEntry& tensor = *saved.find("query_key_value");
  EXPECT_EQ(tensor.shape, (Shape{12, 1}));
  std::vector<float> read(in_file.size());
  tensor.read(0, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, in_file);
  clear();
  load(dir_ / "out");
  EXPECT_EQ(memory_[qkv], mine);
}

TEST_F(CheckpointTest, CopiesTheTokenizerAndNothingElse) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "merges.txt", "spiece.model",
                           "chat_template.jinja"}) {
    write_bytes(dir_ / "source" / name, name);
  }
  write_bytes(dir_ / "source/generation_config.json", "{\"eos_token_id\": 2}");
  write_bytes(dir_ / "source/model.safetensors", "not copied");
  write_bytes(dir_ / "source/README.md", "not copied");
  SaveOptions o = options();
  o.tokenizer_from = dir_ / "source";
  save(o);
  EXPECT_EQ(names_in(dir_ / "out"),
            (std::vector<std::string>{"chat_template.jinja", "config.json",
                                      "generation_config.json", "merges.txt", "model.safetensors",
                                      "spiece.model", "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(read_file(dir_ / "out/generation_config.json"), "{\"eos_token_id\": 2}");
}

TEST_F(CheckpointTest, SecondSaveReplacesOnlyModel) {
  SaveOptions sharded = options();
  sharded.max_shard_bytes = 8;
  save(sharded);
  write_bytes(dir_ / "out/steps.jsonl", "log");
  memory_[norm_] = {70, 80};
  save(options());
  EXPECT_EQ(names_in(dir_ / "out"),
            (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                      "steps.jsonl"}));
  clear();
  load(dir_ / "out");
  EXPECT_EQ(memory_[norm_], (std::vector<float>{70, 80}));
}

TEST_F(CheckpointTest, FailedSaveLeavesDirectoryUnchanged) {
  const auto fail = [](const ValuePart&, const LookAtPiece&) { throw device_error("gone"); };
  expect_error(ExitCode::device, "gone", [&] { save_model(module_, fail, options()); });
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
  save(options());
  expect_error(ExitCode::device, "gone", [&] { save_model(module_, fail, options()); });
  EXPECT_EQ(names_in(dir_ / "out").size(), 3U);
  clear();
  load(dir_ / "out");
  EXPECT_EQ(memory_[norm_], (std::vector<float>{7, 8}));
}

TEST_F(CheckpointTest, ExchangedDirectoryKeepsModeLinkAndLock) {
  namespace fs = std::filesystem;
  fs::create_directories(dir_ / "real");
  fs::create_directory_symlink("real", dir_ / "out");
  const OutputDirectory held(dir_ / "out");
  save(options());
  fs::permissions(dir_ / "real", fs::perms::owner_all | fs::perms::group_read);
  write_bytes(dir_ / "out/step-1/state", "mine");
  fs::create_symlink("nowhere", dir_ / "out/link");
  SaveOptions other = options();
  other.config_json = "{\"model_type\": \"gpt2\"}";
  save(other);
  EXPECT_EQ(read_file(dir_ / "out/config.json"), other.config_json);
  EXPECT_EQ(read_file(dir_ / "out/step-1/state"), "mine");
  EXPECT_TRUE(fs::is_symlink(dir_ / "out")) << "the link stays, what it leads to is exchanged";
  EXPECT_TRUE(fs::is_symlink(dir_ / "out/link"));
  EXPECT_EQ(fs::status(dir_ / "real").permissions(), fs::perms::owner_all | fs::perms::group_read);
  EXPECT_EQ(names_in(dir_.path()), (std::vector<std::string>{"out", "real"}));
  expect_error(ExitCode::usage, "another training", [&] { OutputDirectory(dir_ / "out"); });
}

TEST_F(CheckpointTest, ModelSurvivesFailedExchange) {
  namespace fs = std::filesystem;
  save(options());
  const fs::path before = fs::current_path();
  fs::current_path(dir_ / "out");
  memory_[norm_] = {70, 80};
  const SaveOptions other{.directory = ".", .config_json = "{\"model_type\": \"gpt2\"}"};
  expect_error(ExitCode::bad_input, "it is the working directory of this run; the new one is in",
               [&] { save(other); });
  fs::current_path(before);
  EXPECT_EQ(read_file(dir_ / "out/config.json"), options().config_json);
  load(dir_ / "out");
  EXPECT_EQ(memory_[norm_], (std::vector<float>{7, 8}));
  const std::string kept = names_in(dir_ / "out").back();
  ASSERT_THAT(kept, ::testing::StartsWith("new-model-"));
  load(dir_ / "out" / kept);
  EXPECT_EQ(memory_[norm_], (std::vector<float>{70, 80}));
}

TEST_F(CheckpointTest, NewSaveRenamesShards) {
  SaveOptions sharded = options();
  sharded.max_shard_bytes = 16;
  save(sharded);
  const auto first = names_in(dir_ / "out");
  save(sharded);
  const auto second = names_in(dir_ / "out");
  EXPECT_EQ(first.size(), second.size());
  EXPECT_NE(first, second);
  EXPECT_THAT(second[2], ::testing::MatchesRegex("model-[0-9a-f]+-00001-of-00002.safetensors"));
}

// Killed at any moment of saving one model over another: there is a model, and config.json has the
// weights that were saved with it. tests/faults does it call by call.
TEST_F(CheckpointTest, KilledSaveLeavesOneModel) {
  const auto save_as = [&](int model) {
    memory_[norm_] = {static_cast<float>(model), 0};
    save({.directory = dir_ / "out", .config_json = std::to_string(model)});
  };
  save_as(0);  // from now on there is a model at every instant
  for (int kill_after_us = 500; kill_after_us < 40'000; kill_after_us += 1'500) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0;; ++i) save_as(i % 2);
    }
    usleep(static_cast<useconds_t>(kill_after_us));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const int model = std::stoi(read_file(dir_ / "out/config.json"));
    load(dir_ / "out");
    EXPECT_EQ(memory_[norm_][0], static_cast<float>(model)) << kill_after_us << " us";
  }
}

TEST_F(CheckpointTest, SavesRunWithModel) {
  SaveOptions o = options();
  o.run_toml = "batch = 1\n";
  save(o);
  EXPECT_EQ(read_file(dir_ / "out/run.toml"), "batch = 1\n");
}

TEST_F(CheckpointTest, RefusesNonFiniteWeights) {
  const auto with = [&](float q, Dtype dtype = Dtype::f32) {
    std::vector<TensorToWrite> tensors{
        tensor_of<float>("model.q.weight", Dtype::f32, {2, 2}, {1, 1, q, 1}),
        tensor_of<float>("model.k.weight", Dtype::f32, {1, 2}, {2, 2}),
        tensor_of<float>("model.norm.weight", Dtype::f32, {2}, {3, 3}),
    };
    if (dtype == Dtype::bf16)
      tensors[0] = tensor_of<Bf16>("model.q.weight", Dtype::bf16, {2, 2}, {1, 1, q, 1});
    write_checkpoint(dir_.path(), tensors);
  };
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  with(kNan);
  expect_error(ExitCode::bad_input, "tensor model.q.weight holds nan at element 2",
               [&] { load(dir_.path()); });
  with(-kInfinity);
  expect_error(ExitCode::bad_input, "tensor model.q.weight holds -inf at element 2",
               [&] { load(dir_.path()); });
  with(kNan, Dtype::bf16);
  expect_error(ExitCode::bad_input, "tensor model.q.weight holds nan at element 2",
               [&] { load(dir_.path()); });
  with(std::numeric_limits<float>::max());
  EXPECT_NO_THROW(load(dir_.path()));
}

TEST_F(CheckpointTest, ReportsUnwritablePath) {
  write_bytes(dir_ / "file", "in the way");
  expect_error(ExitCode::bad_input, "cannot write", [&] { save(options("file")); });
  expect_error(ExitCode::bad_input, "file/out: Not a directory",
               [&] { save(options("file/out")); });
}

TEST_F(CheckpointTest, ConvertsFloatsOfEveryWidth) {
  const std::vector<float> q{1.5F, -2, 0.25F, 1e-3F}, k{3, 4};
  const std::vector<TensorToWrite> tensors{
      tensor_of<Bf16>("model.q.weight", Dtype::bf16, {2, 2}, q),
      tensor_of<double>("model.k.weight", Dtype::f64, {1, 2}, k),
      tensor_of<F16>("model.norm.weight", Dtype::f16, {2}, {0.5F, 65504}),
  };
  write_checkpoint(dir_.path(), tensors);
  load(dir_.path());
  EXPECT_EQ(memory_[qk_], (std::vector<float>{1.5F, -2, 0.25F, Bf16(1e-3F), 3, 4}));
  EXPECT_EQ(memory_[norm_], (std::vector<float>{0.5F, 65504}));
}

TEST_F(CheckpointTest, FindsTensorsByOtherSpellings) {
  const std::vector<TensorToWrite> tensors{
      tensor_of<float>("q.weight", Dtype::f32, {2, 2}, {1, 1, 1, 1}),
      tensor_of<float>("k.weight", Dtype::f32, {1, 2}, {2, 2}),
      tensor_of<float>("norm.weight", Dtype::f32, {2}, {3, 3}),
  };
  write_checkpoint(dir_.path(), tensors);
  load(dir_.path(), [](std::string_view name) {
    return std::vector<std::string>{std::string(name), std::string(name.substr(6))};
  });
  EXPECT_EQ(memory_[qk_], (std::vector<float>{1, 1, 1, 1, 2, 2}));
}

TEST_F(CheckpointTest, ListsMissingTensors) {
  const std::vector<TensorToWrite> one{
      tensor_of<float>("model.norm.weight", Dtype::f32, {2}, {3, 3})};
  write_checkpoint(dir_.path(), one);
  expect_error(ExitCode::bad_input,
               "lacks 2 of the model's 3 tensors: model.q.weight, model.k.weight",
               [&] { load(dir_.path()); });
  EXPECT_EQ(memory_[norm_], (std::vector<float>{7, 8}));  // nothing was filled
}

TEST_F(CheckpointTest, RefusesAnotherShapeOrKind) {
  std::vector<TensorToWrite> tensors{
      tensor_of<float>("model.q.weight", Dtype::f32, {2, 2}, {1, 1, 1, 1}),
      tensor_of<float>("model.k.weight", Dtype::f32, {2, 1}, {2, 2}),
      tensor_of<float>("model.norm.weight", Dtype::f32, {2}, {3, 3}),
  };
  write_checkpoint(dir_.path(), tensors);
  expect_error(ExitCode::bad_input, "tensor model.k.weight is [2,1], but the model's is [1,2]",
               [&] { load(dir_.path()); });
  tensors[1] = tensor_of<int32_t>("model.k.weight", Dtype::i32, {1, 2}, {2, 2});
  write_checkpoint(dir_.path(), tensors);
  expect_error(ExitCode::bad_input, "tensor model.k.weight is I32, which does not convert to f32",
               [&] { load(dir_.path()); });
}

TEST_F(CheckpointTest, LogsOnlyRelevantTensors) {
  save(options());
  std::vector<TensorToWrite> tensors{
      tensor_of<float>("model.q.weight", Dtype::f32, {2, 2}, {1, 1, 1, 1}),
      tensor_of<float>("model.k.weight", Dtype::f32, {1, 2}, {2, 2}),
      tensor_of<float>("model.norm.weight", Dtype::f32, {2}, {3, 3}),
      tensor_of<float>("h.0.attn.bias", Dtype::f32, {1}, {0}),
      tensor_of<float>("lm_head.weight", Dtype::f32, {1}, {0}),
  };
  write_checkpoint(dir_.path(), tensors);
  const testing::NotesTaken notes;
  load(dir_.path());
  EXPECT_EQ(notes.text(), "");
  for (const char* name : {"a", "b", "c", "d", "e"})
    tensors.push_back(tensor_of<float>(name, Dtype::f32, {1}, {0}));
  write_checkpoint(dir_.path(), tensors);
  load(dir_.path());
  EXPECT_THAT(notes.text(),
              ::testing::HasSubstr("5 tensors have no place in the model: a, b, c and 2 more"));
}

// A file of one large tensor, which has no blocks on the disk: all zeros.
void write_sparse(const std::filesystem::path& path, std::string_view dtype, int64_t elements,
                  int64_t bytes) {
  const std::string header = fmt::format(
      R"({{"w":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", dtype, elements, bytes);
  std::string begin(8, '\0');
  begin[0] = static_cast<char>(header.size());
  write_bytes(path, begin + header);
  std::filesystem::resize_file(path, begin.size() + header.size() + static_cast<size_t>(bytes));
}

TEST(LoadModel, HoldsNoSecondCopyOfTensor) {
  constexpr int64_t kElements = int64_t{40} << 20;
  for (const auto& [dtype, size] : {std::pair("F32", 4), std::pair("F64", 8)}) {
    TempDir dir;
    write_sparse(dir / "model.safetensors", dtype, kElements, kElements * size);
    Module module;
    module.add(parameter("w", {Dtype::f32, {kElements}}, {{"w", {kElements}, 0}}));
    std::vector<float> piece(1 << 20, 1.0F);  // where the value is, as far as this test goes
    const auto piece_bytes = static_cast<int64_t>(piece.size() * sizeof(float));
    int64_t filled = 0, most = 0;
    const int64_t before = status_bytes("VmRSS:");
    load_model(
        module,
        [&](const ValuePart& part, const MakePiece& fill) {
          for (int64_t at = 0; at < part.bytes; at += piece_bytes) {
            fill(std::as_writable_bytes(std::span(piece)));
            filled += std::ranges::count(piece, 0.0F);
            most = std::max(most, status_bytes("VmRSS:") - before);
          }
        },
        CheckpointReader(dir.path()));
    EXPECT_EQ(filled, kElements);
    EXPECT_LT(most, 24 << 20) << "mapped pages of the file would count, too";
  }
}

TEST_F(CheckpointTest, PartMustBeInsideParameter) {
  add(parameter("w", {Dtype::f32, {2}}, {{"w", {2}, 1}}), {0, 0});
  expect_error(ExitCode::internal, "tensor w [2] at element 1 is not a dense part of w f32[2]",
               [&] { save(options()); });
}

}  // namespace
}  // namespace snug
