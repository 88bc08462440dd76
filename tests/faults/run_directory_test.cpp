// A run's next checkpoint: killed after every system call, without power after every change, with
// every call failing. `latest` names the old one or the new one, and what it names is whole.
#include "checkpoint/run_directory.h"

#include "base/checksum.h"
#include "base/error.h"
#include "base/staged_file.h"
#include "checkpoint/run_state.h"
#include "formats/testing.h"
#include "support/faulty_files.h"

namespace snug::testing {
namespace {

namespace fs = std::filesystem;

Module state_of_a_run() {
  Module module;
  for (const char* name : {"weight", "weight.m"}) {
    module.add({.name = name,
                .type = {Dtype::f32, {3}},
                .category = Category::optimizer,
                .scope = Scope::persistent});
  }
  return module;
}

// As RunSaver does it.
void save_checkpoint(const fs::path& run, int64_t step, const Retention& retention) {
  const Module module = state_of_a_run();
  const float numbers[3] = {static_cast<float>(step), 2, 3};
  StagedCheckpoint staged(run, step);
  RunManifest manifest{.run = retention.run, .step = step, .data = {.checksum = checksum_text("")}};
  manifest.pieces = save_run_state(
      module, run_state(module),
      [&](const ValuePart&, const LookAtPiece& look) { look(std::as_bytes(std::span(numbers))); },
      staged.folder() / kStateFile);
  StagedFile file(staged.folder() / kManifestFile);
  file.write(manifest_text(manifest));
  file.commit();
  staged.commit();
  remove_old_checkpoints(run, retention);
}

// The step that --resume would continue from; 0: none was ever saved.
int64_t step_in(const fs::path& run) {
  if (!fs::exists(run / kLatestFile)) return 0;
  const fs::path checkpoint = find_checkpoint(run);
  const RunManifest manifest = read_manifest(checkpoint);
  EXPECT_NO_THROW(RunStateReader(checkpoint, manifest).verify());
  return manifest.step;
}

class RunDirectoryFaults : public ::testing::Test {
 protected:
  RunDirectoryFaults() { fs::create_directories(box() / "run"); }
  fs::path box() const { return dir_ / "box"; }

  void expect_old_or_new(int64_t before, int64_t after, const Retention& retention) {
    const auto save = [&] { save_checkpoint(box() / "run", after, retention); };
    const auto check = [&](const fs::path& at) {
      EXPECT_THAT(step_in(at / "run"), ::testing::AnyOf(before, after));
      for (const fs::path& other : checkpoints_in(at / "run"))
        EXPECT_NO_THROW(RunStateReader(other, read_manifest(other)).verify()) << other;
    };
    EXPECT_GT(for_each_last_call(box(), save, check), 15);
    EXPECT_GT(for_each_power_loss(box(), save, check), 15);
    for_each_failing_call(box(), save, [&](const fs::path& at, const FailedCall& failed) {
      check(at);
      EXPECT_TRUE(failed.error || step_in(at / "run") == after) << failed.call;
    });
  }

  TempDir dir_;
};

TEST_F(RunDirectoryFaults, FirstCheckpoint) { expect_old_or_new(0, 1, {.run = "a"}); }

TEST_F(RunDirectoryFaults, NextCheckpointRemovesOldest) {
  for (const int64_t step : {1, 2}) save_checkpoint(box() / "run", step, {.run = "a"});
  expect_old_or_new(2, 3, {.run = "a"});
}

TEST_F(RunDirectoryFaults, KeepsOnlyOne) {
  save_checkpoint(box() / "run", 1, {.run = "a", .keep = 1});
  expect_old_or_new(1, 2, {.run = "a", .keep = 1});
}

TEST_F(RunDirectoryFaults, NewRunReplacesAnother) {
  for (const int64_t step : {5, 7}) save_checkpoint(box() / "run", step, {.run = "a"});
  expect_old_or_new(7, 2, {.run = "b", .others = true});
}

TEST_F(RunDirectoryFaults, SameStepOfAnotherRun) {
  save_checkpoint(box() / "run", 2, {.run = "a"});
  expect_old_or_new(2, 2, {.run = "b", .others = true});
}

TEST_F(RunDirectoryFaults, RemovesOnlyItsOwnFiles) {
  const fs::path run = box() / "run";
  save_checkpoint(run, 1, {.run = "a"});
  fs::create_directory_symlink(run / "step-00000001", run / "step-00000002");
  write_bytes(run / "step-00000003/manifest.json", "damaged");
  save_checkpoint(run, 4, {.run = "b", .keep = 1});
  save_checkpoint(run, 5, {.run = "b", .keep = 1});
  for (const char* name : {"step-00000001", "step-00000002", "step-00000003", "step-00000005"})
    EXPECT_TRUE(fs::exists(run / name)) << name;
  EXPECT_FALSE(fs::exists(run / "step-00000004"));
}

TEST_F(RunDirectoryFaults, KeepsLaterStepsAfterRollback) {
  const fs::path run = box() / "run";
  for (const int step : {1, 2, 5, 6}) save_checkpoint(run, step, {.run = "a", .keep = 9});
  save_checkpoint(run, 3, {.run = "a", .keep = 2});
  EXPECT_FALSE(fs::exists(run / "step-00000001"));
  for (const char* name : {"step-00000002", "step-00000003", "step-00000005", "step-00000006"})
    EXPECT_TRUE(fs::exists(run / name)) << name;
}

}  // namespace
}  // namespace snug::testing
