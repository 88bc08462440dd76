// Recompute (activation checkpointing, rematerialization): forward values that are not kept are
// computed again just before the backward op that reads them. Every forward op is repeated at most
// once; random ops carry their key, so a repeat draws the same numbers, and results stay the same
// bit for bit.
#include "techniques/recompute/recompute.h"

#include <algorithm>
#include <unordered_map>

#include "ir/builder.h"

namespace snug {
namespace {

class Recompute {
 public:
  Recompute(Module& module, std::string_view program, const std::vector<bool>& keep)
      : module_(module), builder_(module, program), keep_(keep) {
    keep_.resize(module.values.size(), true);
  }

  void run() {
    forward_ = std::move(builder_.program().ops);
    builder_.program().ops.clear();
    builder_.set_phase(Phase::backward);
    for (size_t at = 0; at < forward_.size(); ++at) {
      for (ValueId id : forward_[at].outputs) maker_[id.index] = at;
    }
    for (size_t at = 0; at < forward_.size(); ++at) {
      Op op = forward_[at];
      if (op.phase != Phase::forward) {
        for (ValueId& id : op.inputs) id = available(id);
        op.predicate = available(op.predicate);
      }
      builder_.program().ops.push_back(std::move(op));
    }
  }

 private:
  // The value itself where it is kept (or no forward op makes it), else its repeat, made now if it
  // is not there yet.
  ValueId available(ValueId id) {
    if (!id.valid() || keep_[static_cast<size_t>(id.index)]) return id;
    const auto maker = maker_.find(id.index);
    if (maker == maker_.end() || forward_[maker->second].phase != Phase::forward) return id;
    if (const auto found = repeated_.find(id.index); found != repeated_.end()) return found->second;
    repeat(forward_[maker->second]);
    return repeated_.at(id.index);
  }

  void repeat(const Op& op) {
    const auto& from_output = op.def->recompute_from_output;
    if (from_output && keep_[static_cast<size_t>(output(op, from_output->from).index)])
      return repeat_from_output(op, *from_output);
    std::vector<ValueId> inputs;
    for (ValueId id : op.inputs) inputs.push_back(available(id));
    emit(op, *op.def, std::move(inputs), op.outputs);
  }

  // The rest of the op's outputs from the one that was kept.
  void repeat_from_output(const Op& op, const RecomputeFromOutput& from_output) {
    std::vector<ValueId> inputs{output(op, from_output.from)};
    for (const int port : from_output.inputs)
      inputs.push_back(available(op.inputs[static_cast<size_t>(port)]));
    std::vector<ValueId> outputs;
    for (const int port : from_output.outputs) outputs.push_back(output(op, port));
    emit(op, *from_output.def, std::move(inputs), outputs);
  }

  static ValueId output(const Op& op, int port) { return op.outputs[static_cast<size_t>(port)]; }

  void emit(const Op& op, const OpDef& def, std::vector<ValueId> inputs,
            const std::vector<ValueId>& repeated) {
    builder_.set_layer(op.layer);
    const auto outputs = builder_.emit(def, op.name + ".again", std::move(inputs), op.attrs);
    builder_.last().clone_of = op.name;
    keep_.resize(module_.values.size(), true);
    for (size_t i = 0; i < outputs.size(); ++i) {
      module_[outputs[i]].category = Category::recompute;
      repeated_[repeated[i].index] = outputs[i];
    }
  }

  Module& module_;
  Builder builder_;
  std::vector<bool> keep_;
  std::vector<Op> forward_;                        // the program as it was
  std::unordered_map<int32_t, size_t> maker_;      // value -> index of the op that makes it
  std::unordered_map<int32_t, ValueId> repeated_;  // dropped value -> its repeat
};

}  // namespace

void recompute(Module& module, std::string_view program, const std::vector<bool>& keep) {
  Recompute(module, program, keep).run();
}

}  // namespace snug
