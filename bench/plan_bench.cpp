// How long a plan takes from name to placed, verified module, how tightly it packs, and how long
// the search for the fastest plan takes with everything left open.
//
//   build/bench/plan                                             all of it
//   build/bench/plan gpt2 "--gpu l4 --batch 8" 1600MiB 3200MiB   this search, inside these budgets
#include <algorithm>
#include <chrono>

#include "base/units.h"
#include "search/plan_run.h"
#include "settings/testing/with_flags.h"

namespace {

using namespace snug;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void time_plan(const char* model, int64_t batch, int64_t seq) {
  double best = 1e9;
  Plan plan;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    plan = make_plan(model, Model::load(model).forward({.batch = batch, .seq = seq}), {});
    best = std::min(best, seconds_since(start));
  }
  size_t ops = 0;
  for (const Program& program : plan.module.programs) ops += program.ops.size();
  fmt::print("{:<16}{:>12}{:>8}{:>9}{:>12}{:>16.5f}\n", model, fmt::format("{} x {}", batch, seq),
             ops, plan.module.values.size(), format_seconds(best),
             plan.memory.device().placement.ratio());
}

void time_search(const char* model, const std::string& flags) {
  Options options;
  options.model = model;
  const auto start = Clock::now();
  const Resolved run = resolve(testing::with_flags(options, flags));
  PlanSearch search = joint_search(run);
  std::optional<Choice> choice = search.fastest(run.limits());
  const bool fits = choice.has_value();
  if (!fits) choice = search.smallest();
  const double taken = seconds_since(start);
  fmt::print("{:<12} {:<40}{:>9}{:>10}  {} {}, a step {:.6f} s; {}\n", model, flags,
             search.variants().size(), format_seconds(taken), fits ? "fits:" : "needs",
             format_bytes(arena_of(choice->plan)), choice->step_seconds,
             flags_of(search.variants()[choice->variant].change()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) {
    for (int i = 3; i < argc; ++i)
      time_search(argv[1], fmt::format("{} --budget {}", argv[2], argv[i]));
    if (argc == 3) time_search(argv[1], argv[2]);
    return 0;
  }
  fmt::print("{:<16}{:>12}{:>8}{:>9}{:>12}{:>16}\n", "model", "batch x seq", "ops", "values",
             "plan", "arena/max-live");
  time_plan("gpt2", 8, 1024);
  time_plan("qwen2.5-0.5b", 32, 1024);
  time_plan("llama-7b", 8, 2048);
  time_plan("llama-405b", 1, 4096);

  fmt::print("\n{:<12}{:<36}{:>9}{:>10}  {}\n", "search", "", "variants", "found in", "chosen");
  constexpr const char* kOpen = "--batch 64 --seq 2048 --allow all";
  for (const char* where : {"--gpu h200", "--gpu a100-80", "--gpu rtx4090"})
    time_search("llama-7b", fmt::format("{} {}", where, kOpen));
  for (const char* where : {"--budget 9TiB", "--budget 3TiB", "--budget 1TiB"})
    time_search("llama-405b", fmt::format("--device cpu {} {}", where, kOpen));
  time_search("qwen2.5-7b", "--gpu rtx4090 --batch 16");
}
