// One stage of a pipeline out of the whole model's programs. A value that another stage reads goes
// from virtual stage to virtual stage until it is there, or where it has been before: forward what the next layers read,
// backward the gradients of that.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "passes/gradient_squares.h"
#include "passes/mesh.h"
#include "passes/passes.h"
#include "passes/shared_names.h"
#include "techniques/pipeline/pipeline.h"
#include "techniques/pipeline/virtual_stages.h"

namespace snug {
namespace {

// A value that leaves the stage that makes it.
struct Crossing {
  ValueId value;
  bool in_forward;      // is it made there?
  int64_t from;         // a virtual stage
  int64_t furthest[2];  // by way: the last virtual stage that reads it

  // Does it go from that virtual stage to the next one on the way?
  bool leaves(int64_t virtual_stage, Way way) const {
    return way == Way::up ? from <= virtual_stage && virtual_stage < furthest[0]
                          : from >= virtual_stage && virtual_stage > furthest[1];
  }
  bool enters(int64_t virtual_stage, Way way) const {
    return way == Way::up ? from < virtual_stage && virtual_stage <= furthest[0]
                          : from > virtual_stage && virtual_stage >= furthest[1];
  }
  // After as many virtual stages as there are stages it would come to one that has it.
  void end_where_it_is(int64_t stages) {
    furthest[0] = std::min(furthest[0], from + stages - 1);
    furthest[1] = std::max(furthest[1], furthest[0] - (stages - 1));
  }
};

class StageOfProgram {
 public:
  StageOfProgram(Module& module, const VirtualStages& virtual_stages, std::string_view program,
                 const Recipe& recipe)
      : module_(module), recipe_(recipe), builder_(module, program) {
    ops_ = std::exchange(builder_.program().ops, {});
    virtual_stage_of_ = virtual_stages.of(ops_);
    read_originals();
    find_crossings();
  }

  void run() {
    const auto backward =
        std::ranges::find_if(ops_, [](const Op& op) { return op.phase != Phase::forward; });
    const auto forward_ops = static_cast<size_t>(backward - ops_.begin());
    for (int64_t chunk = 0; chunk < recipe_.mesh.chunks; ++chunk)
      add(chunk, Way::up, 0, forward_ops);
    for (int64_t chunk = recipe_.mesh.chunks; chunk-- > 0;)
      add(chunk, Way::down, forward_ops, ops_.size());
  }

 private:
  // Of the whole model's ops, one of this stage's chunks.
  void add(int64_t chunk, Way way, size_t begin, size_t end) {
    const int64_t virtual_stage = chunk * recipe_.mesh.pp + recipe_.mesh.stage;
    std::vector<Op>& ops = builder_.program().ops;
    const size_t before = ops.size();
    builder_.set_phase(way == Way::up ? Phase::forward : Phase::backward);
    receive(virtual_stage, way);
    for (size_t at = begin; at < end; ++at) {
      if (virtual_stage_of_[at] != virtual_stage) continue;
      ops.push_back(std::move(ops_[at]));
      const std::vector<ValueId> made = ops.back().outputs;
      for (const ValueId id : made) send(id, virtual_stage, way);
    }
    for (size_t at = before; at < ops.size(); ++at) ops[at].chunk = static_cast<int32_t>(chunk);
  }

  // What an earlier stage recomputes for its backward comes too late for a later one, which has
  // received the original.
  void read_originals() {
    std::map<std::string_view, size_t> by_name;
    std::map<ValueId, std::pair<size_t, ValueId>> repeats;  // its op, and the original
    for (size_t at = 0; at < ops_.size(); ++at) {
      Op& op = ops_[at];
      for (ValueId& id : op.inputs) {
        const auto repeat = repeats.find(id);
        if (repeat != repeats.end() &&
            virtual_stage_of_[repeat->second.first] < virtual_stage_of_[at])
          id = repeat->second.second;
      }
      by_name[op.name] = at;
      const auto found = by_name.find(op.clone_of.empty() ? op.backward_of : op.clone_of);
      if (found == by_name.end()) continue;
      for (const auto& [port, original] : recomputed_by(op, ops_[found->second]))
        repeats[op.outputs[port]] = {at, original};
    }
  }

  // Of the outputs of an op that repeats or differentiates another: those that repeat one of its.
  static std::vector<std::pair<size_t, ValueId>> recomputed_by(const Op& op, const Op& original) {
    std::vector<std::pair<size_t, ValueId>> out;
    const auto repeats = [&](size_t port, int of) {
      out.emplace_back(port, original.outputs[static_cast<size_t>(of)]);
    };
    const auto& fused = original.def->fused_recompute;
    const auto& from_output = original.def->recompute_from_output;
    if (op.clone_of.empty()) {
      if (fused && fused->with == op.def)
        repeats(static_cast<size_t>(fused->recomputed), fused->output);
      return out;
    }
    for (size_t port = 0; port < op.outputs.size(); ++port)
      repeats(port, op.def == original.def ? static_cast<int>(port) : from_output->outputs[port]);
    return out;
  }

  void find_crossings() {
    std::map<ValueId, size_t> made;
    for (size_t at = 0; at < ops_.size(); ++at) {
      for (size_t port = 0; port < ops_[at].inputs.size(); ++port) {
        const ValueId id = ops_[at].inputs[port];
        if (!id.valid() || note_reader(made, id, at)) continue;
        // A gradient to which another stage adds its part: they are added up later.
        ops_[at].inputs[port] = {};
      }
      if (ops_[at].predicate.valid()) note_reader(made, ops_[at].predicate, at);
      for (const ValueId id : ops_[at].outputs) made[id] = at;
    }
    std::ranges::stable_sort(crossings_, {}, [&](const Crossing& c) { return made.at(c.value); });
    for (Crossing& c : crossings_) c.end_where_it_is(recipe_.mesh.pp);
  }

  // False where what it reads is another stage's part of a sum.
  bool note_reader(const std::map<ValueId, size_t>& made, ValueId id, size_t at) {
    while (!made.contains(id) && module_[id].base.valid()) id = module_[id].base;
    if (!made.contains(id)) return true;
    const int64_t from = virtual_stage_of_[made.at(id)], to = virtual_stage_of_[at];
    const bool in_forward = ops_[made.at(id)].phase == Phase::forward;
    if (to > from && !in_forward && module_[id].owns_bytes())
      throw internal_error(
          "'{}' of backward is read by virtual stage {}, after virtual stage {} that makes it",
          module_[id].name, to, from);
    const Mesh& mesh = recipe_.mesh;
    if (mesh.stage_of(from) == mesh.stage_of(to)) return true;
    if (!module_[id].owns_bytes()) return false;
    auto known = std::ranges::find(crossings_, id, &Crossing::value);
    if (known == crossings_.end())
      known = crossings_.insert(
          known, {.value = id, .in_forward = in_forward, .from = from, .furthest = {from, from}});
    known->furthest[0] = std::max(known->furthest[0], to);
    known->furthest[1] = std::min(known->furthest[1], to);
    return true;
  }

  int64_t number_of(const Crossing& c) const { return &c - crossings_.data(); }

  void receive(int64_t virtual_stage, Way way) {
    const StageLink link{recipe_, way};
    for (const Crossing& c : crossings_) {
      if (c.enters(virtual_stage, way)) {
        builder_.set_layer(module_[c.value].layer);
        ops::recv(builder_, module_[c.value].name + ".received", module_[c.value].type,
                  link.from(number_of(c)));
        builder_.last().outputs = {c.value};
      }
      // What only passes through, and what forward has made for another stage's backward.
      const bool is_here = c.enters(virtual_stage, way) ||
                           (way == Way::down && c.from == virtual_stage && c.in_forward);
      if (is_here && c.leaves(virtual_stage, way)) send(c, way);
    }
  }

  void send(ValueId id, int64_t virtual_stage, Way way) {
    const auto c = std::ranges::find(crossings_, id, &Crossing::value);
    if (c != crossings_.end() && c->leaves(virtual_stage, way)) send(*c, way);
  }
  void send(const Crossing& c, Way way) {
    builder_.set_layer(module_[c.value].layer);
    ops::send(builder_, module_[c.value].name + ".sent", c.value,
              StageLink{recipe_, way}.to(number_of(c)));
  }

  Module& module_;
  const Recipe& recipe_;
  Builder builder_;
  std::vector<Op> ops_;
  std::vector<int64_t> virtual_stage_of_;
  std::vector<Crossing> crossings_;  // in the order in which they are made
};

// By gradient: the virtual stages that have a part of it, as the whole model's training program says.
using Parts = std::map<ValueId, std::set<int64_t>>;

Parts parts_of_gradients(const Module& module, const VirtualStages& virtual_stages,
                         const Program& training) {
  Parts parts;
  const std::vector<int64_t> virtual_stage_of = virtual_stages.of(training.ops);
  for (size_t at = 0; at < training.ops.size(); ++at) {
    for (const ValueId id : training.ops[at].outputs) {
      const ValueId root = module.root(id);
      if (module[root].category == Category::grads && module[root].shared())
        parts[root].insert(virtual_stage_of[at]);
    }
  }
  return parts;
}

// What is known of a gradient that the first and the last stage have a part of: a parameter of its
// own on each (share_between_stages).
void mark_gradients_of_two(Module& module, const Parts& parts, const Mesh& mesh) {
  for (const auto& [gradient, virtual_stages] : parts) {
    if (virtual_stages.size() == 1) continue;
    if (virtual_stages != std::set<int64_t>{0, mesh.virtual_stages() - 1})
      throw usage_error("--pp {}: layers of several stages share '{}'", mesh.pp,
                        module[module[gradient].parameter].name)
          .hint("only what comes before the first layer and after the last may share");
    module[gradient].param = module[module[gradient].parameter].param;
  }
}

// In front of the update: the loss, and what other stages have summed of their gradients.
void receive_for_update(Module& module, const Parts& parts, const Recipe& recipe) {
  const Mesh& mesh = recipe.mesh;
  std::vector<int64_t> blocks(static_cast<size_t>(mesh.virtual_stages()));
  for (const auto& [gradient, virtual_stages] : parts)
    blocks[static_cast<size_t>(*virtual_stages.begin())] += sums_of_squares(module, gradient, mesh);
  Builder b(module, ProgramRole::update);
  b.set_phase(Phase::update);
  share_loss(b, module.find_shared(shared_names::kLoss), recipe);
  for (int64_t virtual_stage = 0; virtual_stage < mesh.virtual_stages(); ++virtual_stage) {
    const int64_t count = blocks[static_cast<size_t>(virtual_stage)];
    const int64_t stage = mesh.stage_of(virtual_stage);
    if (count == 0 || stage == mesh.stage) continue;
    const StageLink link{recipe, stage < mesh.stage ? Way::up : Way::down};
    const ValueId row = ops::recv(b, fmt::format("norm.piece.{}", virtual_stage),
                                  {Dtype::f64, {count}}, link.from(virtual_stage));
    module[row].category = Category::comm;
  }
}

// Shared values that this stage has nothing to do with.
void drop_what_others_have(Module& module) {
  std::vector<bool> used(module.values.size());
  const auto use = [&](ValueId id) {
    for (; id.valid(); id = module[id].base) used[static_cast<size_t>(id.index)] = true;
  };
  for (const char* name : {shared_names::kLoss, shared_names::kLossScale})
    use(module.find_shared(name));
  for (const Program& program : module.programs) {
    for (const Op& op : program.ops) {
      for (const ValueId id : op.inputs) use(id);
      for (const ValueId id : op.outputs) use(id);
      use(op.predicate);
    }
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    module.values[i].scope = Scope::local;  // which no op reads
    module.values[i].program = 0;
  }
  sweep_values(module);
}

}  // namespace

bool StageLink::has_source() const {
  return way == Way::up ? !recipe.mesh.is_first_stage() : !recipe.mesh.is_last_stage();
}
bool StageLink::has_target() const {
  return way == Way::up ? !recipe.mesh.is_last_stage() : !recipe.mesh.is_first_stage();
}

ops::Message StageLink::message(bool sends, int64_t seq) const {
  const Mesh& mesh = recipe.mesh;
  const bool is_next = sends == (way == Way::up);
  const int64_t before = (mesh.stage + mesh.pp - 1) % mesh.pp;
  const int64_t boundary = is_next ? mesh.stage : before;  // after that stage
  // Of an odd ring the last boundary is between two that have the same lane.
  const bool is_odd = mesh.pp % 2 == 1 && boundary + 1 == mesh.pp;
  return {.axis = std::string(mesh_axes::kStages),
          .peer = is_next ? (mesh.stage + 1) % mesh.pp : before,
          .seq = seq,
          .lane = fmt::format("{}{}", way == Way::up ? "up" : "down", is_odd ? 2 : boundary % 2),
          .ranks = mesh.pp,
          .stride = recipe.sharding.ranks * mesh.tp};
}

void cut_into_stages(Module& module, const Recipe& recipe) {
  const std::string training(program_name(ProgramRole::training_first));
  const VirtualStages virtual_stages(module, module.program(training), recipe);
  const Parts parts = parts_of_gradients(module, virtual_stages, module.program(training));
  mark_gradients_of_two(module, parts, recipe.mesh);
  for (const ProgramRole role : {ProgramRole::training_first, ProgramRole::evaluation})
    StageOfProgram(module, virtual_stages, program_name(role), recipe).run();
  receive_for_update(module, parts, recipe);
  // What was recomputed for another stage alone.
  eliminate_dead(module);
  drop_what_others_have(module);
}

}  // namespace snug
