// A small model, planned, allocated and fed with random tokens: what the end-to-end tests share.
//
//   SmallRun run("tests/parity/llama", {.batch = 3, .seq = 16});
//   float loss = run.step();     // one whole step, on the next batch
//
// On another device than the CPU the plan is that device's too: recipe.backend follows it.
//
// A rank of several takes every so many-th micro-batch, and its losses are those of all ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hal/cpu/cpu_device.h"
#include "models/model.h"
#include "placement/plan.h"
#include "runtime/executor.h"

namespace snug {

class SmallRun {
 public:
  SmallRun(const std::string& model, const BuildOptions& build, Recipe recipe = {},
           const ExecutorOptions& options = {}, Device* device = nullptr);

  float step();  // the step's mean loss
  std::vector<float> losses(int steps);
  void skip(int64_t steps) { fed_ += steps * recipe_.accum; }  // what they would have been fed
  float evaluate();  // mean loss of the current batch, through the program `eval`
  // Tokens and targets of that number, from a fixed seed, as the n-th that a program takes together.
  void feed(int64_t micro_batch, int64_t n = 0);
  void feed_last();  // the last that was fed in a step, as the first: what `evaluate` takes
  // Weights of a directory, in place of those that were drawn.
  void load(const std::string& directory);
  void load_adapter(const std::string& directory);
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  const Plan& plan() const { return plan_; }
  const Module& module() const { return plan_.module; }
  float lr = 1e-3F;

 private:
  float mean_loss(int64_t micro_batches) const;
  int64_t micro_batches() const { return recipe_.accum * recipe_.sharding.ranks; }  // of a step

  Model model_;
  std::unique_ptr<Device> own_device_;  // where none was given
  Device& device_;
  Recipe recipe_;
  Plan plan_;
  std::unique_ptr<Executor> executor_;
  int64_t batch_ = 0;
  int64_t targets_ = 0;  // per micro-batch
  int64_t fed_ = 0;
};

// Directory of the tree's tests/, given by the build.
std::string tests_dir();

}  // namespace snug
