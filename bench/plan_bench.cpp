// How long a plan takes from name to placed, verified module, how tightly it packs, and how long
// the search for what to recompute takes.
#include <algorithm>
#include <chrono>

#include "base/units.h"
#include "models/model.h"
#include "plan/recompute_search.h"

int main() {
  using namespace snug;
  struct Case {
    const char* model;
    int64_t batch, seq;
  };
  fmt::print("{:<16}{:>12}{:>8}{:>9}{:>12}{:>16}\n", "model", "batch x seq", "ops", "values",
             "plan", "arena/max-live");
  for (const Case& c : {Case{"gpt2", 8, 1024}, Case{"qwen2.5-0.5b", 32, 1024},
                        Case{"llama-7b", 8, 2048}, Case{"llama-405b", 1, 4096}}) {
    double best = 1e9;
    Plan plan;
    for (int i = 0; i < 3; ++i) {
      const auto start = std::chrono::steady_clock::now();
      plan = make_plan(c.model, Model::load(c.model).forward({.batch = c.batch, .seq = c.seq}), {});
      best = std::min(
          best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    size_t ops = 0;
    for (const Program& program : plan.module.programs) ops += program.ops.size();
    fmt::print("{:<16}{:>12}{:>8}{:>9}{:>12}{:>16.5f}\n", c.model,
               fmt::format("{} x {}", c.batch, c.seq), ops, plan.module.values.size(),
               format_seconds(best), plan.account.device().placement.ratio());
  }

  const ForwardBuilder forward = Model::load("llama-405b").forward({.batch = 1, .seq = 4096});
  const int64_t bytes = parse_bytes("6.1TiB");
  const auto start = std::chrono::steady_clock::now();
  const RecomputeChoice choice =
      RecomputeSearch("llama-405b", forward, {}, nominal_model(Backend::cpu)).choose(bytes);
  const double taken =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("\nllama-405b --recompute auto:{}: found in {}, {} instead of {}, {:+.1f}% time\n",
             format_bytes(bytes), format_seconds(taken),
             format_bytes(choice.plan.module.arena_bytes[0]), format_bytes(choice.needed_without),
             100 * choice.extra_seconds / (choice.step_seconds - choice.extra_seconds));
}
