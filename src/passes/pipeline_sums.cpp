// What the stages of a pipeline tell each other besides what their layers read: losses, parts of
// gradients, sums of squares.
#include <algorithm>

#include "ops/basic/add.h"
#include "ops/comm/pack.h"
#include "passes/passes.h"
#include "passes/pipeline_parallel.h"
#include "passes/updates.h"

namespace snug {
namespace {

// The last op's output that is a version of a shared value; the value itself where there is none.
ValueId latest_of(const Module& module, const Program& program, ValueId shared) {
  for (auto op = program.ops.rbegin(); op != program.ops.rend(); ++op) {
    for (const ValueId id : op->outputs)
      if (module.root(id) == shared) return id;
  }
  return shared;
}

// Between the first and the last stage.
ops::Message message_to_other_end(const Recipe& recipe, int64_t seq) {
  const Mesh& mesh = recipe.mesh;
  return {.axis = std::string(mesh_axes::kStages),
          .peer = mesh.is_first_stage() ? mesh.pp - 1 : 0,
          .seq = seq,
          .lane = "ends",
          .ranks = mesh.pp,
          .stride = recipe.sharding.ranks * mesh.tp};
}

// Both have a part; each makes the sum, the first stage's part first.
void add_parts(Builder& b, ValueId gradient, int64_t seq, const Recipe& recipe) {
  Module& module = b.module();
  const std::string name = module[gradient].name;
  const bool first = recipe.mesh.is_first_stage();
  const ValueId own = latest_of(module, b.program(), gradient);
  const Value version = module[own];
  b.set_layer(version.layer);
  // The first stage's goes first on both ends.
  ValueId other;
  for (const bool of_first : {true, false}) {
    const ops::Message message = message_to_other_end(recipe, seq + (of_first ? 0 : 1));
    if (of_first == first) {
      ops::send(b, name + ".part", own, message);
    } else {
      other = ops::recv(b, name + ".other_part", version.type, message);
      module[other].category = Category::comm;
    }
  }
  const ValueId sum = ops::add(b, name + ".both_parts", first ? own : other, first ? other : own);
  module[sum].base = gradient;
  module[sum].view_offset = own == gradient ? 0 : version.view_offset;
  module[sum].padded = version.padded;
  module[sum].category = Category::grads;
  module[sum].layer = version.layer;
}

}  // namespace

bool is_counted_elsewhere(const Value& gradient, const Mesh& mesh) {
  return gradient.param != nullptr && mesh.stage > 0;
}

void share_loss(Builder& b, ValueId own, const Recipe& recipe) {
  Module& module = b.module();
  const StageLink link{recipe, Way::down};
  b.set_layer(kNoLayer);
  const ValueId loss = module.find_shared(shared_names::kLoss);
  if (link.has_source()) {
    own = ops::recv(b, "loss.received", module[loss].type, link.from(recipe.mesh.pp));
    module[own].base = loss;
    module[own].category = Category::buffers;
  }
  if (module[own].type != module[loss].type)  // a sum over ranks
    own = b.view(own, "loss.summed", module[loss].type.shape, 0);
  if (link.has_target()) ops::send(b, "loss.sent", own, link.to(recipe.mesh.pp));
}

void share_between_stages(Module& module, const Recipe& recipe) {
  if (recipe.mesh.pp == 1) return;
  if (module.program_index(ProgramRole::training_first) >= 0) {
    Builder b(module, last_training_program(module));
    b.set_phase(Phase::backward);
    int64_t seq = 0;
    for (size_t i = 0; i < module.values.size(); ++i) {
      const Value& value = module.values[i];
      if (value.category != Category::grads || !value.shared() || value.param == nullptr) continue;
      add_parts(b, {static_cast<int32_t>(i)}, seq, recipe);
      seq += 2;
    }
  }
  Builder b(module, ProgramRole::evaluation);
  const ValueId loss = latest_of(module, b.program(), module.find_shared(shared_names::kLoss));
  share_loss(b, loss, recipe);
}

std::vector<ValueId> squares_of_stages(Builder& b, const std::vector<ValueId>& own,
                                       const Recipe& recipe) {
  const Mesh& mesh = recipe.mesh;
  if (mesh.pp == 1) return own;
  Module& module = b.module();
  std::vector<ValueId> rows(static_cast<size_t>(mesh.pp));
  for (const Op& op : b.program().ops) {
    if (op.def->comm == Comm::recv && module[op.outputs[0]].type.dtype == Dtype::f64)
      rows[static_cast<size_t>(op.attrs.i("seq"))] = op.outputs[0];
  }
  b.set_layer(kNoLayer);
  if (!own.empty())
    rows[static_cast<size_t>(mesh.stage)] = ops::pack(b, "norm.stage.own", own, /*unit=*/1);
  // From one neighbour to the other, in the order in which they are received.
  const auto pass = [&](Way way, int64_t stage) {
    const ValueId row = rows[static_cast<size_t>(stage)];
    if (row.valid())
      ops::send(b, fmt::format("norm.stage.{}.sent", stage), row, StageLink{recipe, way}.to(stage));
  };
  if (!mesh.is_last_stage())
    for (int64_t stage = 0; stage <= mesh.stage; ++stage) pass(Way::up, stage);
  if (!mesh.is_first_stage())
    for (int64_t stage = mesh.stage; stage < mesh.pp; ++stage) pass(Way::down, stage);
  std::erase(rows, ValueId{});
  return rows;
}

}  // namespace snug
