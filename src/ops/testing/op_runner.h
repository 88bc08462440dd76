// Runs an op's kernel on some backend, for checks that are the same on all of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/testing/guarded.h"
#include "ops/testing/op_case.h"

namespace snug {

using Buffers = std::vector<Guarded>;  // by value id, or by port of one op
inline size_t at(ValueId id) { return static_cast<size_t>(id.index); }
struct Shared {  // an output that shares an input's bytes
  int output = 0, input = 0;
};

class OpRunner {
 public:
  virtual ~OpRunner() = default;

  virtual Backend backend() const = 0;
  // Do two runs give the same bits?
  virtual bool repeats_bits() const { return true; }

  // The op's outputs, from copies of its inputs among `values`. Every buffer is between
  // canaries, outputs are poisoned before, scratch is as large as declared; fails where the kernel
  // writes anything but its outputs. Outputs that must alias do.
  virtual Buffers run(const OpCase& c, const Op& op, const Buffers& values,
                      const std::vector<Shared>& shared) = 0;
  // The same in other ways that must not change a bit: which way ("on 1 thread"), and its outputs.
  virtual std::vector<std::pair<std::string, Buffers>> again(const OpCase& c, const Op& op,
                                                             const Buffers& values) = 0;
};

// `shared`, and what the op's facts demand.
std::vector<Shared> with_demanded(const Op& op, std::vector<Shared> shared);
// Is input `i` written through an output that shares its bytes?
bool is_written(const std::vector<Shared>& shared, size_t i);

class CpuRunner final : public OpRunner {
 public:
  Backend backend() const override { return Backend::cpu; }
  Buffers run(const OpCase& c, const Op& op, const Buffers& values,
              const std::vector<Shared>& granted) override;
  std::vector<std::pair<std::string, Buffers>> again(const OpCase& c, const Op& op,
                                                     const Buffers& values) override;
};

}  // namespace snug
