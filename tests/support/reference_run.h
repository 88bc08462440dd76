// A small model that PyTorch has run too (tests/parity/<family>), with the weights, batches and
// results that are stored there. "lora_<family>" is an adapter of it, as PEFT has trained it.
//
//   ReferenceRun run("llama", {.attention = ops::AttentionKind::flash});
//   run.feed_batch();
//   run.executor().run("micro_first");
//   run.mean_loss() / run.stored("loss")[0];
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "formats/safetensors.h"
#include "support/small_run.h"

namespace snug {

class ReferenceRun {
 public:
  // Batch and sequence of `build` are those of the reference. A bf16 or f16 recipe keeps a master.
  explicit ReferenceRun(const std::string& family, BuildOptions build = {},
                        const Recipe& recipe = {}, const ExecutorOptions& options = {},
                        Device* device = nullptr);

  void feed_batch();              // the one whose gradients are stored
  void feed_curve(int64_t step);  // that step's
  Executor& executor() { return run_.executor(); }
  std::vector<float> stored(const std::string& tensor) const;
  double mean_loss() const;
  double grad_norm() const;

  // A gradient tensor against the stored one, in L2 norms.
  struct Difference {
    std::string tensor;
    double difference = 0, reference = 0;
  };
  // One for each tensor of the model, after "micro_first". Fails where either side lacks one.
  std::vector<Difference> gradient_differences();
  double global_norm() const;  // of all stored gradients

 private:
  void feed(const std::string& tensor, std::string_view input, int64_t row);

  std::string directory_, base_;
  Part part_;  // that is trained
  SafetensorsFile reference_;
  Shape shape_;  // [B, T]
  mutable SmallRun run_;
};

}  // namespace snug
