#include "support/random_resume.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <utility>

#include "checkpoint/run_directory.h"
#include "checkpoint/run_state.h"
#include "checkpoint/save_cost.h"
#include "formats/testing.h"
#include "runtime/initialise.h"
#include "runtime/value_stream.h"
#include "settings/parse.h"
#include "settings/recipe.h"

namespace snug {
namespace {

constexpr int kStepsAfter = 3;

std::vector<SavedPiece> save(SmallRun& run, const std::filesystem::path& folder) {
  flush_updates(run.executor());
  ValuePieces pieces(run.executor());
  return save_run_state(run.module(), run_state(run.module()), pieces_of(pieces),
                        folder / kStateFile);
}

using Losses = decltype(std::declval<SmallRun>().losses(1));

// The same during the steps that follow, whose losses are returned through `later`.
std::vector<SavedPiece> save_beside(SmallRun& run, const std::filesystem::path& folder, int seed,
                                    Losses& later) {
  flush_updates(run.executor());
  const std::vector<ValueId> state = state_to_save(run.module());
  const std::unique_ptr<Memory> staging =
      run.executor().device().allocate_host(seed % 4 == 0 ? 4096 : int64_t{1} << 22);
  ValueStream stream(run.executor(), state,
                     {staging->data(), static_cast<size_t>(staging->bytes())});
  const PiecesOf pieces = [&](const ValuePart& part, const LookAtPiece& visit) {
    stream.look(part.value, visit);
  };
  auto saved = std::async(std::launch::async, [&] {
    try {
      return save_run_state(run.module(), state, pieces, folder / kStateFile);
    } catch (...) {
      stream.give_up();  // else no step would end
      throw;
    }
  });
  later = run.losses(kStepsAfter);
  return saved.get();
}

// With other techniques that compute the same.
Recipe in_another_way(const DrawnOffload& d, int seed) {
  Recipe recipe = d.recipe;
  recipe.offload = d.offload;
  recipe.fold_update = d.fold;
  recipe.host_update = d.host_update;
  if (recipe.compress == CompressKind::none)
    recipe.recompute = parse_setting<RecomputePolicy>(seed % 2 == 0 ? "full" : "none", "recompute");
  return recipe;
}

}  // namespace

void expect_resume_is_exact(int seed, const ExecutorOptions& options, Device* device) {
  const DrawnOffload d = draw_offload(seed);
  SCOPED_TRACE(d.text);
  Recipe before = d.recipe, after = in_another_way(d, seed);
  if (seed % 3 == 0) std::swap(before, after);
  const testing::TempDir dir;
  const std::string folder = dir.path().string();
  ExecutorOptions with_disk = options;
  with_disk.offload_dir = folder;
  SmallRun first(d.model, d.build, before, with_disk, device);
  const int steps = 1 + seed % 4;
  first.losses(steps);
  Losses later;
  RunManifest manifest;
  if (seed % 2 == 0) {
    manifest.pieces = save_beside(first, dir.path(), seed, later);
  } else {
    manifest.pieces = save(first, dir.path());
    later = first.losses(kStepsAfter);
  }

  SmallRun second(d.model, d.build, after, with_disk, device);
  ValuePieces pieces(second.executor());
  load_run_state(second.module(), into(pieces), RunStateReader(dir.path(), manifest));
  derive(second.executor());
  second.skip(steps);
  EXPECT_EQ(second.losses(kStepsAfter), later);
  EXPECT_EQ(save(second, dir.path()), save(first, dir.path()));
}

}  // namespace snug
