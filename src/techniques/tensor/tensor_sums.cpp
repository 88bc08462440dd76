// Sums over the ranks that share matrices, in the order of the ranks: of activations, where a matmul
// leaves a part of a sum on each, and of gradients.
#include <map>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ops/comm/comm.h"
#include "ops/comm/pack.h"
#include "ops/comm/rank_sum.h"
#include "passes/mesh.h"
#include "passes/updates.h"
#include "settings/recipe.h"
#include "techniques/tensor/tensor_parallel.h"

namespace snug {
namespace {

// What it makes is a view of the sum from now on.
void lower(Builder& b, const Op& op, const Mesh& mesh) {
  Module& module = b.module();
  const ValueId in = op.inputs[0], out = op.outputs[0];
  const int64_t elements = module[in].type.shape.elements();
  b.set_layer(op.layer);
  b.set_phase(op.phase);
  const auto made = [&](ValueId id, Category category) {
    Op& last = b.last();
    last.micro_batch = op.micro_batch;
    last.chunk = op.chunk;
    last.backward_of = op.backward_of;
    last.clone_of = op.clone_of;
    module[id].category = category;
    return id;
  };
  const ValueId blocks = b.view(in, op.name + ".blocks", {elements}, 0);
  const ValueId theirs =
      made(ops::all_to_all(b, op.name + ".exchange", blocks, over_tensor(mesh)), Category::comm);
  const ValueId sum = made(ops::rank_sum(b, op.name + ".sum", theirs,
                                         {.ranks = mesh.tp, .elements = elements / mesh.tp}),
                           module[out].category);
  module[out].base = sum;
}

// A gradient that ranks have parts of, and which of it.
struct PartialGradient {
  ValueId version;  // its last one
  int64_t first = 0, elements = 0;
  int64_t sharers = 0;
};

std::vector<PartialGradient> partial_gradients(const Module& module, const Program& program,
                                               const Mesh& mesh) {
  std::map<ValueId, ValueId> last;
  for (const Op& op : program.ops)
    for (const ValueId id : op.outputs) last[module.root(id)] = id;
  std::vector<PartialGradient> out;
  for (const auto& [carried, version] : last) {
    const Value& value = module[carried];
    if (value.category != Category::grads || !value.shared() || !value.parameter.valid()) continue;
    const TensorCut& cut = module[value.parameter].param->cut;
    const int64_t elements = module[version].type.shape.elements();
    if (cut.partial) {
      out.push_back({version, 0, elements, mesh.tp});
    } else if (cut.repeats > 1) {
      out.push_back({version, cut.repeated_from, elements - cut.repeated_from, cut.repeats});
    }
  }
  return out;
}

class GradientSums {
 public:
  GradientSums(Module& module, Program& program, const Mesh& mesh)
      : module_(module), mesh_(mesh), b_(module, program.name) {
    b_.set_phase(Phase::backward);
  }

  // All of one type are in one row.
  void add_up(const std::vector<PartialGradient>& gradients) {
    std::map<Dtype, std::vector<PartialGradient>> by_type;
    for (const PartialGradient& g : gradients) by_type[module_[g.version].type.dtype].push_back(g);
    for (const auto& [dtype, same] : by_type) add_up_row(same);
  }

 private:
  void add_up_row(const std::vector<PartialGradient>& gradients) {
    std::vector<ValueId> parts;
    for (const PartialGradient& g : gradients)
      parts.push_back(b_.view(g.version, module_[g.version].name + ".part", {g.elements}, g.first));
    const ValueId row = ops::pack(b_, "tensor_gradients.pack", parts);
    module_[row].category = Category::comm;
    const ValueId all = ops::all_gather(b_, "tensor_gradients.gather", row, over_tensor(mesh_));
    module_[all].category = Category::comm;
    int64_t first = 0;
    for (const PartialGradient& g : gradients) {
      sum(g, all, first);
      first += ops::packed(g.elements);
    }
  }

  // Those of neighbours that have the same, in the gradient's next version.
  void sum(const PartialGradient& g, ValueId all, int64_t first) {
    const Value version = module_[g.version];
    const int64_t row = module_[all].type.shape[0] / mesh_.tp;
    const int64_t neighbours = mesh_.part / g.sharers * g.sharers;
    b_.set_layer(version.layer);
    const ValueId rows = b_.view(all, version.name + ".rows", {g.sharers * row}, neighbours * row);
    const ValueId sum = ops::rank_sum(b_, version.name + ".tensor_sum", rows,
                                      {.ranks = g.sharers, .elements = g.elements, .first = first});
    Value& made = module_[sum];
    made.base = module_.root(g.version);
    made.view_offset = offset_of(g.version) + g.first;
    made.category = Category::grads;
  }

  int64_t offset_of(ValueId id) const {  // elements from the root's first
    int64_t offset = 0;
    for (; module_[id].base.valid(); id = module_[id].base) offset += module_[id].view_offset;
    return offset;
  }

  Module& module_;
  const Mesh& mesh_;
  Builder b_;
};

}  // namespace

void lower_tensor_sums(Module& module, const Mesh& mesh) {
  if (mesh.tp == 1) return;
  for (size_t p = 0; p < module.programs.size(); ++p) {
    Builder b(module, module.programs[p].name);
    for (Op& op : std::exchange(b.program().ops, {})) {
      if (op.def == &ops::scatter_rows_def) {
        lower(b, op, mesh);
      } else {
        b.program().ops.push_back(std::move(op));
      }
    }
  }
}

void sum_over_tensor_ranks(Module& module, const Recipe& recipe) {
  if (recipe.mesh.tp == 1) return;
  if (module.program_index(ProgramRole::training_first) < 0) return;
  Program& program = module.program(last_training_program(module));
  const std::vector<PartialGradient> gradients = partial_gradients(module, program, recipe.mesh);
  if (!gradients.empty()) GradientSums(module, program, recipe.mesh).add_up(gradients);
}

}  // namespace snug
