// Stores what forward keeps for backward as int8: quantized after its last forward reader, restored
// before the backward ops that read it. Forward is untouched, so the step's loss is; gradients
// change by what int8 rounds off. Values that an op must have exactly (OpDef::exact) stay.
#include "techniques/compress/compress.h"

#include <algorithm>
#include <unordered_map>

#include "ir/builder.h"
#include "ops/quantize/quantize.h"

namespace snug {
namespace {

// Below this, scales and the alignment of two more values eat the gain.
constexpr int64_t kFewestElements = 1024;

// Where a value is used in the program, by index of the op.
struct Uses {
  bool made_in_forward = false;
  bool exact = false;   // a backward op must read it unchanged
  bool viewed = false;  // other values share its bytes
  int32_t last_forward = -1;
  int32_t first_backward = -1;
};

std::vector<Uses> uses_in(const Module& module, const Program& program) {
  std::vector<Uses> all(module.values.size());
  auto of = [&](ValueId id) -> Uses& { return all[static_cast<size_t>(id.index)]; };
  for (const Value& value : module.values) {
    if (value.base.valid()) of(value.base).viewed = true;
  }
  for (size_t at = 0; at < program.ops.size(); ++at) {
    const Op& op = program.ops[at];
    const auto now = static_cast<int32_t>(at);
    const bool forward = op.phase == Phase::forward;
    for (size_t port = 0; port < op.inputs.size(); ++port) {
      if (!op.inputs[port].valid()) continue;
      Uses& uses = of(op.inputs[port]);
      if (forward) {
        uses.last_forward = now;
        continue;
      }
      if (uses.first_backward < 0) uses.first_backward = now;
      uses.exact = uses.exact || std::ranges::count(op.def->exact, static_cast<int>(port)) > 0;
    }
    for (ValueId id : op.outputs) {
      if (!forward) continue;
      of(id).made_in_forward = true;
      of(id).last_forward = now;
    }
  }
  return all;
}

class Compress {
 public:
  Compress(Module& module, std::string_view program)
      : module_(module), builder_(module, program), uses_(uses_in(module, builder_.program())) {}

  void run() {
    std::vector<Op> ops = std::move(builder_.program().ops);
    builder_.program().ops.clear();
    for (size_t at = 0; at < ops.size(); ++at) {
      Op& op = ops[at];
      if (op.phase != Phase::forward) {
        for (ValueId& id : op.inputs) id = available(id, op.layer);
      }
      builder_.program().ops.push_back(op);
      if (op.phase != Phase::forward) continue;
      for (ValueId id : op.inputs) store_after(id, at);
      for (ValueId id : op.outputs) store_after(id, at);
    }
  }

 private:
  struct Stored {
    ops::Quantized as;
    ValueId restored = {};     // none before the first backward reader
    int32_t layer = kNoLayer;  // of the ops that read it there
  };

  // Is it kept from forward to backward, and does it gain by int8 in between?
  bool compresses(ValueId id) const {
    const Value& value = module_[id];
    const Uses& uses = uses_[static_cast<size_t>(id.index)];
    const bool own = value.owns_bytes() && !value.shared() && !uses.viewed;
    const bool plain = own && value.padded.rank() == 0 && ops::can_be_quantized(value.type.dtype);
    const bool rests = uses.first_backward > uses.last_forward + 1;
    return uses.made_in_forward && rests && plain && !uses.exact &&
           value.type.shape.elements() >= kFewestElements;
  }

  void store_after(ValueId id, size_t at) {
    if (!id.valid() || stored_.contains(id.index) || !compresses(id)) return;
    if (uses_[static_cast<size_t>(id.index)].last_forward != static_cast<int32_t>(at)) return;
    builder_.set_phase(Phase::forward);
    builder_.set_layer(module_[id].layer);
    stored_[id.index].as = ops::quantize(builder_, module_[id].name + ".int8", ops::kInt8, id);
  }

  // What a backward op of that layer reads instead of `id`. Another layer restores it once more:
  // the floats then live no longer than one layer's backward.
  ValueId available(ValueId id, int32_t layer) {
    const auto found = stored_.find(id.index);
    if (found == stored_.end()) return id;
    Stored& stored = found->second;
    if (!stored.restored.valid() || stored.layer != layer) {
      builder_.set_phase(Phase::backward);
      builder_.set_layer(layer);
      stored.restored = ops::dequantize(builder_, module_[id].name + ".restored", ops::kInt8,
                                        stored.as, module_[id].type.dtype);
      stored.layer = layer;
    }
    return stored.restored;
  }

  Module& module_;
  Builder builder_;
  std::vector<Uses> uses_;                      // by value id, in the program as it was
  std::unordered_map<int32_t, Stored> stored_;  // by value id
};

}  // namespace

void compress(Module& module, std::string_view program) { Compress(module, program).run(); }

}  // namespace snug
