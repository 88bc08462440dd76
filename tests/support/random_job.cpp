#include "support/random_job.h"

#include <algorithm>

#include "base/rng.h"
#include "models/model.h"
#include "passes/passes.h"
#include "support/random_offload.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr const char* kOptimizers[] = {"adamw", "adamw8bit", "adam-mini", "lion", "sgd"};

// "llama" of ".../parity/llama" and of ".../llama.json".
std::string last_part(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.'));
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
  r.sharding = {.ranks = 2 + below(7), .stage = below(4), .threshold = below(3) == 0 ? 20000 : 0};
  if (r.sharding.stage > 0 && r.sharding.ranks % 2 == 0 &&
      below(3) == 0) {  // in groups, with a copy of the state each
    r.sharding.group = r.sharding.ranks == 6 && below(2) == 0 ? 3 : 2;
    if (r.sharding.ranks == 8 && below(2) == 0) r.sharding.group = 4;
  }
  r.sums_apart = below(2) == 0;
  if (below(3) > 0) r.offload = drawn.offload;
  if (r.sharding.stage < 3)  // parameters leave the device in shards
    std::erase_if(r.offload.rules, [](const auto& x) { return x.item == OffloadItem::params; });
  if (!r.sums_apart && below(2) == 0) r.backend = Backend::cuda;  // sums as over NCCL
  const std::string sharding = fmt::format(
      "{} ranks, {} share, stage {}, whole below {}, sums apart {}{}, offload {}", r.sharding.ranks,
      r.sharding.sharers(), r.sharding.stage, r.sharding.threshold, r.sums_apart,
      r.backend == Backend::cuda ? ", by the library" : "", text(r.offload));
  job.text += "; " + sharding;
  job.short_text =
      fmt::format("{}, {} {}{}, {} micro-batches by {}, recompute {}; {}", last_part(job.model),
                  name_of(r.precision), kOptimizers[static_cast<size_t>(r.optimizer)],
                  r.update_in_backward ? " in backward" : "", r.accum, r.micro_group,
                  text(r.recompute), sharding);
  return job;
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
