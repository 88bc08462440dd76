// The type that a model computes in. Parameters change theirs, and every op's own infer says what
// follows: activations go along, while statistics and losses stay fp32.
#include "techniques/precision/precision.h"

#include <unordered_map>

#include "ir/builder.h"
#include "ops/basic/cast.h"
#include "passes/retype.h"

namespace snug {
namespace {

// Float arrays that are fed from outside stay as they are; the program reads a converted copy.
class FedValues {
 public:
  FedValues(Builder& builder, Dtype dtype) : builder_(builder), dtype_(dtype) {}

  ValueId converted(ValueId id) {
    if (!id.valid()) return id;
    const Value& value = builder_.module()[id];
    const bool fed = value.category == Category::inputs && value.type.shape.rank() > 0 &&
                     is_float(value.type.dtype);
    if (!fed) return id;
    const auto [at, added] = copies_.try_emplace(id.index);
    if (added) at->second = ops::cast(builder_, value.name + ".cast", id, dtype_);
    return at->second;
  }

 private:
  Builder& builder_;
  Dtype dtype_;
  std::unordered_map<int32_t, ValueId> copies_;
};

void retype(Module& module, const std::string& program, Dtype dtype) {
  Builder builder(module, program);
  FedValues fed(builder, dtype);
  std::vector<Op> ops = std::move(builder.program().ops);
  builder.program().ops.clear();
  for (Op& op : ops) {
    for (ValueId& id : op.inputs) id = fed.converted(id);
    retype_outputs(module, op);
    builder.program().ops.push_back(std::move(op));
  }
}

}  // namespace

void precision(Module& module, Dtype dtype) {
  if (dtype == Dtype::f32) return;
  for (Value& value : module.values) {
    const bool kept = value.category == Category::params || value.category == Category::buffers;
    if (kept && value.type.dtype == Dtype::f32) value.type.dtype = dtype;
  }
  for (size_t p = 0; p < module.programs.size(); ++p) {
    retype(module, std::string(module.programs[p].name), dtype);
  }
}

}  // namespace snug
