// 1F1B: a stage's forwards and backwards of all micro-batches, as programs that need no more memory
// however many there are.
//
//   micro_first   the forwards that come first, and some pairs: a forward and the backward of an older one
//   micro_next    as many pairs as micro-batches are under way, so that each finds its values where its
//                 own forward of the run before has put them; repeated
//   micro_last    a pair, and the backwards that are left
//
// What forward keeps for backward is a shared value for each micro-batch that is under way, or local
// where a program has both.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "ops/basic/copy.h"
#include "passes/micro_batches.h"
#include "passes/passes.h"
#include "passes/pipeline_parallel.h"

namespace snug {
namespace {

// A forward or a backward of one micro-batch.
struct Unit {
  bool forward;
  int64_t micro_batch;
};

struct Run {
  ProgramRole role;
  int64_t times = 1;
  std::vector<Unit> units = {};
};

class OneForwardOneBackward {
 public:
  OneForwardOneBackward(const Mesh& mesh, int64_t micro_batches)
      : micro_batches_(micro_batches),
        before_(std::min(mesh.pp - mesh.stage - 1, micro_batches)),
        pairs_(micro_batches - before_) {}

  int64_t under_way() const { return before_ + 1; }  // at most, with the one that is computed

  std::vector<Run> runs() const {
    Run first{.role = ProgramRole::training_first};
    for (int64_t m = 0; m < before_; ++m) first.units.push_back({true, m});
    if (pairs_ < 2) {
      add_pairs(first, 0, pairs_);
      add_rest(first);
      return {first};
    }
    // Those of micro_next are a multiple of what is under way.
    const int64_t in_first = (pairs_ - 2) % under_way() + 1;
    const int64_t times = (pairs_ - 1 - in_first) / under_way();
    add_pairs(first, 0, in_first);
    std::vector<Run> runs{first};
    if (times > 0) {
      runs.push_back({.role = ProgramRole::training_next, .times = times});
      add_pairs(runs.back(), in_first, in_first + under_way());
    }
    runs.push_back({.role = ProgramRole::training_last});
    add_pairs(runs.back(), pairs_ - 1, pairs_);
    add_rest(runs.back());
    return runs;
  }

 private:
  void add_pairs(Run& run, int64_t first, int64_t end) const {
    for (int64_t i = first; i < end; ++i) {
      run.units.push_back({true, before_ + i});
      run.units.push_back({false, i});
    }
  }
  void add_rest(Run& run) const {
    for (int64_t m = pairs_; m < micro_batches_; ++m) run.units.push_back({false, m});
  }

  int64_t micro_batches_;
  int64_t before_;  // forwards before the first pair
  int64_t pairs_;
};

bool is_of_micro_batch(const Value& value) {
  return value.shared() && std::ranges::count(shared_names::kMicroBatch, value.name) > 0;
}

class Pipeline {
 public:
  Pipeline(Module& module, const Recipe& recipe)
      : module_(module),
        first_(module.program_index(ProgramRole::training_first)),
        body_(module.programs[static_cast<size_t>(first_)]),
        order_(recipe.mesh, recipe.accum) {
    const auto backward = std::ranges::find(body_.ops, Phase::backward, &Op::phase);
    forward_ops_ = static_cast<size_t>(backward - body_.ops.begin());
  }

  void run() {
    const std::vector<Run> runs = order_.runs();
    in_places_ = runs.size() > 1 && order_.under_way() > 1;
    if (in_places_) take_from_staging();
    find_kept();
    if (in_places_) add_places();
    for (const Run& run : runs) {
      const std::string name(program_name(run.role));
      module_.step.push_back({run.times, {name}});
      if (run.role != ProgramRole::training_first) module_.programs.push_back(program_of(run));
    }
    replace_program(module_, first_, program_of(runs[0]));
  }

 private:
  // What forward makes and backward reads.
  struct Kept {
    ValueId value;
    size_t op, output;
  };
  struct Instance {
    std::vector<Op> forward, backward;
    bool has_forward = false;
    std::vector<ValueId> kept;               // its own
    std::map<ValueId, ValueId> inputs = {};  // copies of those that backward reads, by input
  };

  // A place is free when the backward before is done, and what comes next comes meanwhile.
  void take_from_staging() {
    std::vector<Op> ops;
    for (size_t at = 0; at < body_.ops.size(); ++at) {
      ops.push_back(std::move(body_.ops[at]));
      if (at >= forward_ops_ || ops.back().def->comm != Comm::recv) continue;
      const ValueId taken = ops.back().outputs[0];
      Value staging = module_[taken];
      staging.name += ".staging";
      staging.category = Category::comm;
      ops.back().outputs[0] = module_.add(staging);
      ops.push_back({.def = &ops::copy_def,
                     .name = module_[taken].name + ".taken",
                     .inputs = {ops.back().outputs[0]},
                     .outputs = {taken},
                     .layer = ops.back().layer});
    }
    forward_ops_ += ops.size() - body_.ops.size();
    body_.ops = std::move(ops);
  }

  void find_kept() {
    std::map<ValueId, Kept> made;
    for (size_t at = 0; at < forward_ops_; ++at) {
      for (size_t o = 0; o < body_.ops[at].outputs.size(); ++o)
        made[body_.ops[at].outputs[o]] = {body_.ops[at].outputs[o], at, o};
    }
    std::map<ValueId, Kept> kept;
    for (size_t at = forward_ops_; at < body_.ops.size(); ++at) {
      const Op& op = body_.ops[at];
      const auto read = [&](ValueId id) {
        if (!id.valid()) return;
        const ValueId root = module_.root(id);
        if (made.contains(root)) kept.insert(*made.find(root));
        if (is_of_micro_batch(module_[root])) kept_inputs_[root] = {};
      };
      std::ranges::for_each(op.inputs, read);
      read(op.predicate);
    }
    for (const auto& [id, one] : kept) kept_.push_back(one);
  }

  // A shared value for each micro-batch that may be under way.
  void add_places() {
    const auto add = [&](const Value& like, std::string_view what) {
      std::vector<ValueId> places;
      for (int64_t slot = 0; slot < order_.under_way(); ++slot) {
        places.push_back(add_shared(module_, fmt::format("{}.{}@{}", like.name, what, slot),
                                    like.type, like.category, Scope::step, {}, like.layer));
        module_[places.back()].padded = like.padded;
        module_[places.back()].param = nullptr;
      }
      return places;
    };
    for (const Kept& kept : kept_) places_.push_back(add(Value(module_[kept.value]), "kept"));
    for (auto& [input, places] : kept_inputs_) places = add(Value(module_[input]), "kept");
  }

  Program program_of(const Run& run) {
    const int64_t lowest = std::ranges::min(run.units, {}, &Unit::micro_batch).micro_batch;
    Program program{
        .name = std::string(program_name(run.role)), .role = run.role, .micro_batches = 0};
    std::map<int64_t, Instance> instances;
    std::vector<std::vector<Op>> units;
    for (const Unit& unit : run.units) {
      if (!instances.contains(unit.micro_batch))
        instances[unit.micro_batch] = instance_of(unit.micro_batch - lowest, program.name);
      Instance& instance = instances.at(unit.micro_batch);
      if (unit.forward) {
        instance.has_forward = true;
        feed(instance, program.micro_batches++);
        units.push_back(std::move(instance.forward));
      } else {
        if (!instance.has_forward) read_places(instance, unit.micro_batch);
        units.push_back(std::move(instance.backward));
      }
    }
    program.ops = joined(std::move(units));
    add_to_carried_values(module_, program, run.role != ProgramRole::training_first);
    if (in_places_) write_places(instances);
    return program;
  }

  Instance instance_of(int64_t index, const std::string& program) {
    Program copy = clone(module_, body_, program, index == 0 ? "" : fmt::format("@{}", index));
    Instance instance;
    for (Op& op : copy.ops) op.micro_batch = static_cast<int32_t>(index);
    for (const Kept& kept : kept_) instance.kept.push_back(copy.ops[kept.op].outputs[kept.output]);
    const auto middle = copy.ops.begin() + static_cast<ptrdiff_t>(forward_ops_);
    instance.backward.assign(std::make_move_iterator(middle),
                             std::make_move_iterator(copy.ops.end()));
    copy.ops.erase(middle, copy.ops.end());
    instance.forward = std::move(copy.ops);
    return instance;
  }

  size_t slot_of(int64_t micro_batch) const {
    return static_cast<size_t>(micro_batch % order_.under_way());
  }

  // The micro-batch is the n-th that is fed before the program.
  void feed(Instance& instance, int64_t n) {
    if (in_places_) {
      keep_inputs(instance);
      read_instead(instance.backward, instance.inputs);
    } else {
      give_own_inputs(module_, instance.backward, n);
    }
    give_own_inputs(module_, instance.forward, n);
  }

  // Inputs are overwritten before the next program.
  void keep_inputs(Instance& instance) {
    std::vector<Op>& forward = instance.forward;
    const int32_t index = forward.front().micro_batch;
    for (const auto& [input, places] : kept_inputs_) {
      const Value value = module_[input];
      Value version = value;
      version.name = fmt::format("{}.copy@{}", value.name, index);
      version.scope = Scope::local;
      version.program = static_cast<int32_t>(module_.programs.size());
      const ValueId copy = instance.inputs[input] = module_.add(version);
      forward.push_back({.def = &ops::copy_def,
                         .name = version.name,
                         .inputs = {input},
                         .outputs = {copy},
                         .micro_batch = index});
    }
  }

  // Its forward was in an earlier program.
  void read_places(Instance& instance, int64_t micro_batch) {
    std::map<ValueId, ValueId> place_of;
    for (size_t i = 0; i < kept_.size(); ++i)
      place_of[instance.kept[i]] = places_[i][slot_of(micro_batch)];
    for (const auto& [input, places] : kept_inputs_) place_of[input] = places[slot_of(micro_batch)];
    read_instead(instance.backward, place_of);
  }

  void read_instead(std::vector<Op>& ops, const std::map<ValueId, ValueId>& instead) {
    const auto read = [&](auto&& self, ValueId id) -> ValueId {
      if (!id.valid()) return id;
      if (const auto other = instead.find(id); other != instead.end()) return other->second;
      if (!module_[id].shared() && module_[id].base.valid())
        module_[id].base = self(self, ValueId(module_[id].base));
      return id;
    };
    for (Op& op : ops) {
      for (ValueId& id : op.inputs) id = read(read, id);
      op.predicate = read(read, op.predicate);
    }
  }

  void write_places(const std::map<int64_t, Instance>& instances) {
    for (const auto& [micro_batch, instance] : instances) {
      if (!instance.has_forward) continue;
      for (size_t i = 0; i < kept_.size(); ++i)
        module_[instance.kept[i]].base = places_[i][slot_of(micro_batch)];
      for (const auto& [input, copy] : instance.inputs)
        module_[copy].base = kept_inputs_.at(input)[slot_of(micro_batch)];
    }
  }

  // One unit after another. What a unit receives comes while the one before it is computed, and no
  // sooner; what it sends has gone when the second one after it begins: so what is on its way takes
  // no more bytes however many there are.
  static std::vector<Op> joined(std::vector<std::vector<Op>> units) {
    std::vector<std::vector<Op>> received(units.size() + 1);
    std::vector<std::vector<std::string>> sent(units.size());
    std::vector<std::string> last(units.size());  // what a unit computes last
    for (size_t u = 0; u < units.size(); ++u) {
      const auto is_received = [](const Op& op) { return op.def->comm == Comm::recv; };
      std::ranges::copy_if(units[u], std::back_inserter(received[u]), is_received);
      std::erase_if(units[u], is_received);
      for (const Op& op : units[u]) {
        if (op.def->comm == Comm::none) last[u] = op.name;
        if (op.def->comm == Comm::send) sent[u].push_back(op.name);
      }
    }
    std::vector<Op> ops = std::move(received[0]);
    for (size_t u = 0; u < units.size(); ++u) {
      for (Op& op : received[u + 1]) {
        if (u > 0 && !last[u - 1].empty()) op.after.push_back(last[u - 1]);
        ops.push_back(std::move(op));
      }
      const auto begins =
          std::ranges::find(units[u], Comm::none, [](const Op& op) { return op.def->comm; });
      if (u > 1 && begins != units[u].end())
        begins->after.insert(begins->after.end(), sent[u - 2].begin(), sent[u - 2].end());
      std::ranges::move(units[u], std::back_inserter(ops));
    }
    return ops;
  }

  Module& module_;
  int32_t first_;
  Program body_;
  OneForwardOneBackward order_;
  size_t forward_ops_ = 0;
  bool in_places_ = false;  // else what is kept is local
  std::vector<Kept> kept_;
  std::vector<std::vector<ValueId>> places_;  // as kept_, by slot
  std::map<ValueId, std::vector<ValueId>> kept_inputs_;
};

}  // namespace

void pipeline_order(Module& module, const Recipe& recipe) { Pipeline(module, recipe).run(); }

}  // namespace snug
