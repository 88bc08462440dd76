// A small model, planned, allocated and fed with random tokens: what the end-to-end tests share.
//
//   SmallRun run("tests/parity/llama", {.batch = 3, .seq = 16});
//   float loss = run.step();     // one whole step, on the next batch
#pragma once

#include <memory>
#include <string>

#include "hal/cpu/cpu_device.h"
#include "models/model.h"
#include "plan/plan.h"
#include "runtime/executor.h"

namespace snug {

class SmallRun {
 public:
  SmallRun(const std::string& model, const BuildOptions& build, Recipe recipe = {},
           ExecutorOptions options = {});

  float step();                    // the step's mean loss
  float evaluate();                // mean loss of the current batch, through the program `eval`
  void feed(int64_t micro_batch);  // tokens and targets of that number, from a fixed seed
  Executor& executor() { return *executor_; }
  const Plan& plan() const { return plan_; }
  const Module& module() const { return plan_.module; }
  float lr = 1e-3F;

 private:
  float mean_loss(int64_t micro_batches) const;

  Model model_;
  Plan plan_;
  Recipe recipe_;
  std::unique_ptr<Device> device_ = cpu_device();
  std::unique_ptr<Executor> executor_;
  int64_t targets_ = 0;  // per micro-batch
  int64_t fed_ = 0;
};

// Directory of the tree's tests/, given by the build.
std::string tests_dir();

}  // namespace snug
