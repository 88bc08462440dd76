#include "support/random_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <utility>

#include "base/rng.h"
#include "base/text.h"
#include "base/units.h"
#include "compile/compile.h"
#include "models/model.h"
#include "support/random_offload.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int64_t kMostRanks = 8;
constexpr const char* kOptimizers[] = {"adamw", "adamw8bit", "adam-mini", "lion", "sgd"};

// "llama" of ".../parity/llama" and of ".../llama.json".
std::string last_part(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

// What sets a job apart, but for how its ranks share.
std::string recipe_text(const std::string& model, const Recipe& r) {
  return fmt::format("{}, {} {}{}, {} micro-batches by {}, recompute {}", model,
                     name_of(r.precision), kOptimizers[static_cast<size_t>(r.optimizer)],
                     r.update_in_backward ? " in backward" : "", r.accum, r.micro_group,
                     text(r.recompute));
}

}  // namespace

DrawnRankJob draw_rank_job(int seed) {
  const DrawnOffload drawn = draw_offload(seed);
  DrawnRankJob job{static_cast<const DrawnRecipe&>(drawn), {}};
  const Key key = random_key(53, static_cast<uint64_t>(seed), hash_name("job"));
  uint64_t draws = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(philox(key, draws++)[0] % static_cast<uint64_t>(n));
  };
  if (below(2) == 0) {
    job.model = tests_dir() + (below(2) == 0 ? "/e2e/llama-wide.json" : "/e2e/gpt2-wide.json");
    job.build.seq = std::max<int64_t>(job.build.seq, 2);
  }
  Recipe& r = job.recipe;
  r.sharding = {.ranks = 2 + below(7), .level = below(4), .threshold = below(3) == 0 ? 20000 : 0};
  if (r.sharding.level > 0 && r.sharding.ranks % 2 == 0 &&
      below(3) == 0) {  // in groups, with a copy of the state each
    r.sharding.group = r.sharding.ranks == 6 && below(2) == 0 ? 3 : 2;
    if (r.sharding.ranks == 8 && below(2) == 0) r.sharding.group = 4;
  }
  r.sums_apart = below(2) == 0;
  if (below(3) > 0) r.offload = drawn.offload;
  if (r.sharding.level < 3)  // parameters leave the device in shards
    std::erase_if(r.offload.rules, [](const auto& x) { return x.item == OffloadItem::params; });
  if (!r.sums_apart && below(2) == 0) r.backend = Backend::cuda;  // sums as over NCCL
  const std::string sharding = fmt::format(
      "{} ranks, {} share, stage {}, whole below {}, sums apart {}{}, offload {}", r.sharding.ranks,
      r.sharding.sharers(), r.sharding.level, r.sharding.threshold, r.sums_apart,
      r.backend == Backend::cuda ? ", by the library" : "", text(r.offload));
  job.text += "; " + sharding;
  job.short_text = fmt::format("{}; {}", recipe_text(last_part(job.model), r), sharding);
  return job;
}

std::string draw_schedule(Recipe& recipe, int64_t die, int64_t& layers) {
  Mesh& mesh = recipe.mesh;
  if (die == 0) return "";
  if (die == 1) {
    recipe.pp_schedule = PipelineSchedule::zero_bubble;
    return " zero-bubble";
  }
  mesh.chunks = 2 + recipe.accum % 2;
  layers = std::max(layers, mesh.virtual_stages());
  recipe.accum = round_up(recipe.accum, mesh.pp);
  return fmt::format(" interleaved:{}", mesh.chunks);
}

DrawnRankJob draw_mesh_job(int seed) {
  DrawnRankJob job = draw_rank_job(seed);
  const Key key = random_key(61, static_cast<uint64_t>(seed), hash_name("mesh"));
  uint64_t draws = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(philox(key, draws++)[0] % static_cast<uint64_t>(n));
  };
  constexpr const char* kFamilies[] = {"gpt2", "llama", "qwen2", "mistral", "bert"};
  const std::string family = kFamilies[below(std::size(kFamilies))];
  int64_t layers = 2 + below(4);
  job.build.batch = 1 + below(3);
  job.build.seq = 4 * (1 + below(8));
  if (family == "bert") job.build.packed = false;

  Recipe& r = job.recipe;
  do r.mesh = {.pp = 1 + below(std::min<int64_t>(layers, 4)), .tp = int64_t{1} << below(3)};
  while (!r.mesh.on() || r.mesh.pp * r.mesh.tp > kMostRanks);
  r.sharding.ranks = 1 + below(std::min<int64_t>(4, kMostRanks / (r.mesh.pp * r.mesh.tp)));
  r.sharding.group = 0;
  r.sharding.stride = r.mesh.tp;
  if (!r.sharding.on()) r.sharding.level = 0;
  if (std::exchange(r.update_in_backward, false)) r.clip = below(2) == 0 ? 0 : 1;
  std::string schedule;
  if (r.mesh.pp > 1) {
    r.accum = 1 + below(6);
    r.micro_group = 1;
    if (below(3) == 0) r.accum += 8;  // a program of its micro-batches repeats
    schedule = draw_schedule(r, below(3), layers);
  }
  job.model = with_layers(fmt::format("{}/tensor/{}.json", tests_dir(), family), layers);
  if (r.mesh.tp > 1) {  // matrices that ranks share do not have these
    r.adapters = {};
    r.base = BaseKind::plain;
    if (r.optimizer == OptimizerKind::adamw8bit || r.optimizer == OptimizerKind::adam_mini)
      r.optimizer = OptimizerKind::adamw;
  }
  const bool whole = r.sharding.level < 3;
  const bool shared_keys = r.mesh.tp > 1 && (family == "qwen2" || family == "mistral");
  std::erase_if(r.offload.rules, [&](const auto& x) {
    return (x.item == OffloadItem::grads && shared_keys) ||
           (x.item == OffloadItem::activations && r.mesh.pp > 1) ||
           (x.item == OffloadItem::params && (whole || r.mesh.pp > 1));
  });
  job.short_text = fmt::format("{}; pp {}{}, dp {}, tp {}, stage {}, whole below {}, offload {}",
                               recipe_text(fmt::format("{} of {} layers", family, layers), r),
                               r.mesh.pp, schedule, r.sharding.ranks, r.mesh.tp, r.sharding.level,
                               r.sharding.threshold, text(r.offload));
  job.text = fmt::format("seed {}: {}; {}", seed, job.short_text, job.text);
  return job;
}

std::string with_layers(const std::string& config, int64_t layers) {
  const std::string deeper =
      std::regex_replace(read_file(config), std::regex("\"(num_hidden_layers|n_layer)\": [0-9]+"),
                         fmt::format("\"$1\": {}", layers));
  std::string name = config;
  std::ranges::replace(name, '/', '-');
  std::string path = fmt::format("{}/{}-{}-{}.json", ::testing::TempDir(), name, layers,
                                 ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::ofstream(path) << deeper;
  return path;
}

std::vector<Module> compile_ranks(const DrawnRecipe& job) {
  const Model model = Model::load(job.model);
  std::vector<Module> ranks;
  for (int64_t rank = 0; rank < ranks_of(job.recipe.mesh, job.recipe.sharding); ++rank) {
    Recipe mine = job.recipe;
    go_to_rank(rank, mine.mesh, mine.sharding);
    ranks.push_back(compile("job", model.forward(job.build), mine));
  }
  return ranks;
}

}  // namespace snug
