// Quantizes frozen weights. Each becomes two persistent values, codes and scales, and every op that
// reads it reads a dequantized copy that was made just before and does not outlive it.
//
// After backward exists, and before recompute: what a repeated op reads is then made again, too.
#include "techniques/base/store_base.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/builder.h"
#include "ops/quantize/quantize.h"

namespace snug {
namespace {

class StoringBase {
 public:
  StoringBase(Module& module, const ops::Format& format) : module_(module), format_(format) {}

  void run() {
    const size_t known = module_.values.size();
    for (size_t i = 0; i < known; ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      if (is_stored(module_[id])) store(id);
    }
    for (size_t p = 0; p < module_.programs.size(); ++p) read_in(module_.programs[p].name);
  }

 private:
  struct Weight {
    ops::Quantized stored;
    Dtype dtype;  // that ops read it in
  };

  // What the layers multiply by; embeddings and the head stay whole.
  bool is_stored(const Value& value) const {
    return value.category == Category::params && value.param && !value.param->trainable &&
           value.param->role == Role::matrix && value.layer != kNoLayer &&
           value.type.shape.rank() == 2 && has_whole_blocks(*value.param);
  }

  // Tensors of a checkpoint are stored one by one; a weight that has another stays as it is.
  bool has_whole_blocks(const Param& param) const {
    return std::ranges::all_of(param.checkpoint, [&](const CheckpointPart& part) {
      return ops::has_whole_blocks(format_, part.shape);
    });
  }

  void store(ValueId id) {
    const Value whole = module_[id];
    const Shape& shape = whole.type.shape;
    Param param = *whole.param;
    param.stored = format_.stored_scales;
    const ValueId scales = add_shared(module_, whole.name + ".scales", format_.scales_type(shape),
                                      Category::params, Scope::persistent, param, whole.layer);
    param.stored = format_.stored_payload;
    Value& value = module_[id];
    value.name += ".codes";
    value.type = format_.payload_type(shape);
    value.param = std::make_shared<const Param>(std::move(param));
    weights_[id] = {{.payload = id, .scales = scales}, whole.type.dtype};
  }

  void read_in(const std::string& program) {
    Builder b(module_, program);
    std::vector<Op> ops = std::exchange(b.program().ops, {});
    for (Op& op : ops) {
      for (ValueId& id : op.inputs) {
        const auto found = weights_.find(id);
        if (found != weights_.end()) id = whole_for(b, op, found->second);
      }
      b.program().ops.push_back(std::move(op));
    }
  }

  ValueId whole_for(Builder& b, const Op& op, const Weight& weight) const {
    b.set_layer(op.layer);
    b.set_phase(op.phase);
    const ValueId whole =
        ops::dequantize(b, op.name + ".base", format_, weight.stored, weight.dtype);
    b.last().backward_of = op.backward_of;
    return whole;
  }

  Module& module_;
  const ops::Format& format_;
  std::map<ValueId, Weight> weights_;
};

}  // namespace

void store_base(Module& module, BaseKind kind) {
  if (kind == BaseKind::plain) return;
  StoringBase(module, kind == BaseKind::nf4 ? ops::kNf4 : ops::kInt8).run();
}

}  // namespace snug
