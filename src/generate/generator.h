// Runs the programs of compile_generation: tokens in, the logits of the next one out.
//
//   Generator generator(executor);
//   std::span<const float> logits = generator.take(prompt);   // keys and values of all are kept
//   logits = generator.take({&chosen, 1});
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/executor.h"

namespace snug {

class Generator {
 public:
  // `executor` outlives this.
  explicit Generator(Executor& executor);

  // The next tokens of the sequence, at least one. All but the last go through `prefill` where they
  // fill a chunk. The logits, [V], are valid until the next call.
  std::span<const float> take(std::span<const int32_t> tokens);

  int64_t position() const { return position_; }    // tokens so far
  int64_t positions() const { return positions_; }  // that the caches have
  void restart() { position_ = 0; }                 // with another sequence

 private:
  struct Input {
    ValueId tokens, starts;
    int64_t count = 0;
  };
  Input input_of(const char* program) const;
  void run(const char* program, const Input& input, std::span<const int32_t> tokens);

  Executor& executor_;
  Input prefill_, decode_;  // prefill: of 0 tokens where there is none
  ValueId logits_id_;
  int64_t position_ = 0, positions_ = 0;
  std::vector<int32_t> starts_;
  std::vector<float> logits_;
};

}  // namespace snug
