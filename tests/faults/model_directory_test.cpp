// A model saved over another: killed after every system call, without power after every change,
// with every call failing. The directory holds the old model or the new one, whole, and the next
// run removes the rest.
#include "checkpoint/model_directory.h"

#include <optional>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/output_directory.h"
#include "formats/testing.h"
#include "support/faulty_files.h"

namespace snug::testing {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

// What a run saves: two tensors of one number each, and text files.
struct Saved {
  float weight = 0;
  std::string config = "{}";
  std::string run = "steps = 1\n";
  std::string tokenizer = "";  // none
  bool shards = false;
};

Module two_tensors() {
  Module module;
  for (const char* name : {"a", "b"}) {
    Value value{.name = name,
                .type = {Dtype::f32, {1}},
                .category = Category::params,
                .scope = Scope::persistent};
    value.param = std::make_shared<Param>(Param{.checkpoint = {{name, {1}, 0}}});
    module.add(std::move(value));
  }
  return module;
}

class ModelDirectory : public ::testing::Test {
 protected:
  ModelDirectory() { fs::create_directories(box()); }

  fs::path box() const { return dir_ / "box"; }

  // As a run does it, with the directory held.
  void save(const fs::path& box, const Saved& saved) const {
    const OutputDirectory out(box / "out");
    SaveOptions options{.directory = out.path(), .config_json = saved.config};
    options.run_toml = saved.run;
    if (!saved.tokenizer.empty()) {
      write_bytes(dir_ / "source/tokenizer.json", saved.tokenizer);
      options.tokenizer_from = dir_ / "source";
    }
    if (saved.shards) options.max_shard_bytes = 4;
    save_model(
        two_tensors(),
        [&](const ValuePart&, const LookAtPiece& look) {
          look(std::as_bytes(std::span(&saved.weight, 1)));
        },
        options);
  }

  // All that a reader sees: every tensor as CheckpointReader finds it, every other file as it is.
  // Nothing where there is no config.json, and so no model.
  static std::optional<Files> model_in(const fs::path& directory) {
    if (!fs::exists(directory / kConfigFile)) return std::nullopt;
    Files files;
    const CheckpointReader weights(directory);
    for (const std::string& name : weights.names()) {
      const std::vector<std::byte> bytes = bytes_of(*weights.find(name));
      files["tensor " + name].assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      const std::string name = entry.path().lexically_relative(directory).string();
      const bool passing = name.starts_with(".") || name.ends_with(".safetensors") ||
                           name == kWeightsIndexFile || entry.is_directory();
      if (!passing) files[name] = read_file(entry.path());
    }
    return files;
  }

  // Without what a save draws: "model-00001-of-00002.safetensors".
  static std::vector<std::string> weight_files(const fs::path& directory) {
    std::vector<std::string> names;
    for (std::string name : names_in(directory)) {
      if (!name.starts_with("model")) continue;
      const size_t drawn = name.find("-of-") == std::string::npos ? 0 : 8;
      names.push_back(name.erase(6, drawn));
    }
    return names;
  }

  // Of a directory that nothing interrupted.
  struct Whole {
    std::optional<Files> model;
    std::vector<std::string> names, weights;
  };
  static Whole whole(const fs::path& box) {
    Whole whole;
    if (!fs::exists(box / "out")) return whole;
    whole.model = model_in(box / "out");
    for (const std::string& name : names_in(box / "out"))
      if (!name.starts_with("model")) whole.names.push_back(name);
    whole.weights = weight_files(box / "out");
    return whole;
  }

  // Before the next run comes, only run.toml may be missing: it belongs to one model alone.
  static bool same_model(const std::optional<Files>& found, const std::optional<Files>& expected) {
    if (!found || !expected) return !found && !expected;
    Files with_run = *found;
    if (expected->contains(kRunFile)) with_run.emplace(kRunFile, expected->at(kRunFile));
    return with_run == *expected;
  }

  void expect_old_or_new(const fs::path& box) {
    const std::optional<Files> before = model_in(box / "out");
    const bool is_new = same_model(before, new_.model);
    ASSERT_TRUE(is_new || same_model(before, old_.model))
        << "neither; its files: " << join(names_in(box / "out"), " ");
    (is_new ? saw_new_ : saw_old_) = true;

    { const OutputDirectory next_run(box / "out"); }
    const Whole& expected = is_new ? new_ : old_;
    for (const std::string& name : names_in(box)) EXPECT_EQ(name, "out");
    EXPECT_EQ(model_in(box / "out"), expected.model) << "after the next run began";
    if (expected.model) {
      EXPECT_EQ(whole(box).names, expected.names);
      EXPECT_EQ(whole(box).weights, expected.weights);
    }

    save(box, next_);
    EXPECT_EQ(model_in(box / "out"), new_.model);
    EXPECT_EQ(whole(box).names, new_.names);
    EXPECT_EQ(whole(box).weights, new_.weights);
  }

  void expect_survives(const Saved& next) {
    next_ = next;
    old_ = whole(box());
    const auto save_next = [&] { save(box(), next); };
    {
      TempDir apart;
      fs::copy(box(), apart / "box", fs::copy_options::recursive);
      save(apart / "box", next);
      new_ = whole(apart / "box");
    }
    const auto check = [&](const fs::path& after) { expect_old_or_new(after); };
    EXPECT_GT(for_each_last_call(box(), save_next, check), 20);
    EXPECT_TRUE(saw_old_ && saw_new_);
    if (HasFailure()) return;
    saw_old_ = saw_new_ = false;
    EXPECT_GT(for_each_power_loss(box(), save_next, check), 20);
    EXPECT_TRUE(saw_old_ && saw_new_);
    if (HasFailure()) return;
    for_each_failing_call(box(), save_next, [&](const fs::path& after, const FailedCall& failed) {
      saw_new_ = false;
      remove_kept(after / "out");
      expect_old_or_new(after);
      EXPECT_TRUE(failed.error || saw_new_) << "no error, and no new model";
      EXPECT_THAT(failed.error.value_or("/box"), ::testing::HasSubstr("/box"));
    });
  }

  // A directory that cannot be exchanged keeps the new model in a folder, whole.
  void remove_kept(const fs::path& directory) const {
    if (!fs::exists(directory)) return;
    for (const std::string& name : names_in(directory)) {
      if (!name.starts_with("new-model-")) continue;
      const std::optional<Files> kept = model_in(directory / name);
      ASSERT_TRUE(kept.has_value());
      EXPECT_EQ(kept->at("tensor a"), new_.model->at("tensor a"));
      EXPECT_EQ(kept->at(kConfigFile), new_.model->at(kConfigFile));
      fs::remove_all(directory / name);
    }
  }

  TempDir dir_;
  Saved next_;
  Whole old_, new_;
  bool saw_old_ = false, saw_new_ = false;
};

TEST_F(ModelDirectory, FirstSave) { expect_survives({.weight = 1}); }

TEST_F(ModelDirectory, FirstSaveOfShards) {
  expect_survives({.weight = 1, .tokenizer = "t", .shards = true});
}

TEST_F(ModelDirectory, FirstSaveAmongOtherFiles) {
  write_bytes(box() / "out/notes/a.txt", "mine");
  write_bytes(box() / "out/tokenizer.json", "mine, too");
  expect_survives({.weight = 1, .tokenizer = "t"});
}

TEST_F(ModelDirectory, AnotherSaveOfOneFile) {
  save(box(), {.weight = 1});
  write_bytes(box() / "out/notes/a.txt", "mine");
  expect_survives({.weight = 2, .run = "steps = 2\n"});
}

TEST_F(ModelDirectory, AnotherSaveOfShards) {
  save(box(), {.weight = 1, .shards = true});
  expect_survives({.weight = 2, .run = "steps = 2\n", .shards = true});
}

TEST_F(ModelDirectory, OneFileToShards) {
  save(box(), {.weight = 1});
  write_bytes(box() / "out/notes/a.txt", "mine");
  expect_survives({.weight = 2, .run = "steps = 2\n", .shards = true});
}

TEST_F(ModelDirectory, ShardsToOneFile) {
  save(box(), {.weight = 1, .shards = true});
  expect_survives({.weight = 2});
}

TEST_F(ModelDirectory, AnotherConfiguration) {
  save(box(), {.weight = 1, .tokenizer = "t"});
  write_bytes(box() / "out/log.txt", "mine");
  write_bytes(box() / "out/step-10/deep/state", "mine, too");
  expect_survives({.weight = 2, .config = "{\"a\": 1}", .tokenizer = "u"});
}

}  // namespace
}  // namespace snug::testing
