// Builds programs: checks every op by its `infer` as it is added, and names every value.
//
//   Module module{.name = "tiny"};
//   ValueId x = add_shared(module, "x", {Dtype::f32, {8, 256}}, Category::inputs, Scope::step);
//   Builder b(module, ProgramRole::evaluation);
//   auto layer = b.layer(3, "h.3");                     // until `layer` goes out of scope:
//   ValueId y = b.emit(ops::gelu, "mlp.act", {x})[0];   // op and value are named "h.3.mlp.act"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/op_def.h"
#include "ir/program.h"
#include "ir/taken_names.h"

namespace snug {

ValueId add_shared(Module& module, std::string name, Type type, Category category, Scope scope,
                   Param param = {}, int32_t layer = kNoLayer);

// The shared value that carries a parameter's gradient through the step: "grad.NAME".
ValueId add_gradient(Module& module, ValueId parameter, Dtype dtype);

class Builder {
 public:
  // Opens the program of that name, or adds it.
  Builder(Module& module, std::string_view program);
  // Opens the program of that role, or adds it under the role's name.
  Builder(Module& module, ProgramRole role);

  Module& module() { return module_; }
  Program& program() { return module_.programs[static_cast<size_t>(program_)]; }
  const Type& type(ValueId id) const { return module_[id].type; }
  const Shape& shape(ValueId id) const { return module_[id].type.shape; }

  // Adds an op at the end; returns its outputs. Trailing optional inputs may be left out.
  std::vector<ValueId> emit(const OpDef& def, std::string_view name, std::vector<ValueId> inputs,
                            Attrs attrs = {});
  // Adds an op that writes its single output into `target`: the next version of a shared value.
  ValueId emit_into(const OpDef& def, std::string_view name, std::vector<ValueId> inputs,
                    ValueId target, Attrs attrs = {});
  // A dense view: `shape` elements of `base` from element `offset` on.
  ValueId view(ValueId base, std::string_view name, Shape shape, int64_t offset);
  Op& last() { return program().ops.back(); }

  void set_phase(Phase phase) { phase_ = phase; }
  void set_layer(int32_t layer) { layer_ = layer; }
  int32_t layer_index() const { return layer_; }
  std::string full_name(std::string_view name) const {
    return prefix_.empty() ? std::string(name) : prefix_ + "." + std::string(name);
  }

  class LayerScope {
   public:
    LayerScope(Builder& b, int32_t layer, const std::string& prefix);
    ~LayerScope();
    LayerScope(const LayerScope&) = delete;
    LayerScope& operator=(const LayerScope&) = delete;

   private:
    Builder& builder_;
    int32_t layer_;
    std::string prefix_;
  };
  [[nodiscard]] LayerScope layer(int32_t layer, const std::string& prefix) {
    return {*this, layer, prefix};
  }

 private:
  Builder(Module& module, int32_t index, Program otherwise);

  Module& module_;
  int32_t program_;
  Phase phase_ = Phase::forward;
  int32_t layer_ = kNoLayer;
  std::string prefix_;
  TakenNames op_names_;
  TakenNames value_names_;
};

// What an op's `grad` works with: the forward op, the gradients of its outputs, and a builder to
// emit with. Ops it emits are named after the forward op: "h.3.mlp.act.grad".
class GradContext {
 public:
  GradContext(Builder& builder, const Op& op, std::vector<ValueId> output_grads,
              std::vector<bool> wanted);

  ValueId in(size_t port) const { return port < op_.inputs.size() ? op_.inputs[port] : ValueId{}; }
  ValueId out(size_t port) const { return op_.outputs[port]; }
  // None: nothing flows back into this output.
  ValueId dout(size_t port) const { return output_grads_[port]; }
  bool has(size_t port) const { return in(port).valid(); }
  bool wants(size_t port) const { return port < wanted_.size() && wanted_[port]; }
  const Attrs& attrs() const { return op_.attrs; }
  const Type& type(ValueId id) const { return builder_.type(id); }
  const std::string& name() const { return op_.name; }
  Builder& builder() { return builder_; }

  std::vector<ValueId> emit(const OpDef& def, std::vector<ValueId> inputs, Attrs attrs = {},
                            std::string_view suffix = "grad");
  void set(size_t port, ValueId gradient) { input_grads_[port] = gradient; }
  // The backward op computes this forward output anyway (a loss): the forward op is dropped where
  // nothing else needs it.
  void replaces(size_t port, ValueId value) { replacements_[port] = value; }

  const std::vector<ValueId>& input_grads() const { return input_grads_; }
  const std::vector<ValueId>& replacements() const { return replacements_; }

 private:
  Builder& builder_;
  Op op_;  // a copy: emitting moves the program's list
  std::vector<ValueId> output_grads_;
  std::vector<bool> wanted_;
  std::vector<ValueId> input_grads_;
  std::vector<ValueId> replacements_;
};

}  // namespace snug
