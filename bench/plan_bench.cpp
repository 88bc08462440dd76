// How long a plan takes from name to placed, verified module, and how tightly it packs.
#include <algorithm>
#include <chrono>

#include "base/units.h"
#include "models/model.h"
#include "plan/plan.h"

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
}
