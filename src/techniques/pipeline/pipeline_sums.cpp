// What the stages of a pipeline exchange in addition to what their layers read: losses, parts of
// gradients, sums of squares.
#include <algorithm>
#include <map>

#include "ops/basic/add.h"
#include "ops/comm/pack.h"
#include "passes/mesh.h"
#include "passes/shared_names.h"
#include "passes/updates.h"
#include "techniques/pipeline/pipeline.h"

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

// By layer of this stage: the virtual stage that it is in. What is in none is before the first or after the last.
// Ops that passes have added to a layer say chunk 0.
std::map<int32_t, int64_t> virtual_stages_of_layers(const Module& module, const Mesh& mesh) {
  std::map<int32_t, int64_t> virtual_stages{
      {kNoLayer, mesh.is_first_stage() ? 0 : mesh.virtual_stages() - 1}};
  for (const Op& op : module.program(ProgramRole::training_first).ops) {
    if (op.def->comm != Comm::none || op.layer == kNoLayer) continue;
    int64_t& virtual_stage = virtual_stages[op.layer];
    virtual_stage = std::max(virtual_stage, op.chunk * mesh.pp + mesh.stage);
  }
  return virtual_stages;
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

void share_loss(Builder& b, ValueId own, const Recipe& recipe) {
  Module& module = b.module();
  const StageLink link{recipe, Way::down};
  b.set_layer(kNoLayer);
  const ValueId loss = module.find_shared(shared_names::kLoss);
  const int64_t seq = recipe.mesh.virtual_stages();  // after the sums of their gradients
  if (link.has_source()) {
    own = ops::recv(b, "loss.received", module[loss].type, link.from(seq));
    module[own].base = loss;
    module[own].category = Category::buffers;
  }
  if (module[own].type != module[loss].type)  // a sum over ranks
    own = b.view(own, "loss.summed", module[loss].type.shape, 0);
  if (link.has_target()) ops::send(b, "loss.sent", own, link.to(seq));
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

std::vector<ValueId> squares_of_stages(Builder& b, const std::vector<Squares>& own,
                                       const Recipe& recipe) {
  const Mesh& mesh = recipe.mesh;
  if (mesh.pp == 1) {
    std::vector<ValueId> all;
    for (const Squares& s : own) all.push_back(s.sums);
    return all;
  }
  Module& module = b.module();
  std::vector<ValueId> rows(static_cast<size_t>(mesh.virtual_stages()));
  for (const Op& op : b.program().ops) {
    if (op.def->comm == Comm::recv && module[op.outputs[0]].type.dtype == Dtype::f64)
      rows[static_cast<size_t>(op.attrs.i("seq"))] = op.outputs[0];
  }
  b.set_layer(kNoLayer);
  std::map<int64_t, std::vector<ValueId>> own_sums;  // by virtual stage
  const std::map<int32_t, int64_t> virtual_stages = virtual_stages_of_layers(module, mesh);
  for (const Squares& s : own) own_sums[virtual_stages.at(s.layer)].push_back(s.sums);
  for (const auto& [virtual_stage, sums] : own_sums)
    rows[static_cast<size_t>(virtual_stage)] =
        ops::pack(b, fmt::format("norm.piece.{}", virtual_stage), sums, /*unit=*/1);
  // From one neighbour to the other, in the order in which they are received.
  for (const Way way : {Way::up, Way::down}) {
    const StageLink link{recipe, way};
    if (!link.has_target()) continue;
    for (int64_t virtual_stage = 0; virtual_stage < mesh.virtual_stages(); ++virtual_stage) {
      const ValueId row = rows[static_cast<size_t>(virtual_stage)];
      const int64_t stage = mesh.stage_of(virtual_stage);
      if (row.valid() && (way == Way::up ? stage <= mesh.stage : stage >= mesh.stage))
        ops::send(b, fmt::format("norm.piece.{}.sent", virtual_stage), row, link.to(virtual_stage));
    }
  }
  std::erase(rows, ValueId{});
  return rows;
}

}  // namespace snug
