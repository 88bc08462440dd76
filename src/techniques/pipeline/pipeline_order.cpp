// A stage's micro-batches in the order of its schedule (techniques/pipeline/pipeline_schedule.h), each part of one a copy
// of the ops that it has in the program of one micro-batch.
//
// What a part keeps for a later one is a shared value for each micro-batch that is under way, or local
// where one program has both.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "ops/basic/copy.h"
#include "passes/micro_batches.h"
#include "passes/shared_names.h"
#include "techniques/pipeline/pipeline.h"
#include "techniques/pipeline/pipeline_schedule.h"

namespace snug {
namespace {

// By op of one micro-batch: the part that it belongs to. Of backward, `weights` has what no message to
// another stage comes from, where the schedule asks for that.
std::vector<StagePart> parts_of(const Module& module, const std::vector<Op>& ops,
                                const StageSchedule& schedule) {
  const auto backward = std::ranges::find(ops, Phase::backward, &Op::phase);
  const auto forward_ops = static_cast<size_t>(backward - ops.begin());
  std::vector<StagePart> parts;
  for (const Op& op : ops)
    parts.push_back(parts.size() < forward_ops ? schedule.forward(op.chunk)
                                               : schedule.backward(op.chunk));
  if (!schedule.has_weights()) return parts;
  std::vector<bool> sent(module.values.size());  // or what is sent is made from it
  const auto need = [&](ValueId id) {
    for (; id.valid(); id = module[id].base) sent[static_cast<size_t>(id.index)] = true;
  };
  for (size_t at = ops.size(); at-- > forward_ops;) {
    const Op& op = ops[at];
    const bool is_message = op.def->comm == Comm::send || op.def->comm == Comm::recv;
    const bool is_sent = std::ranges::any_of(
        op.outputs, [&](ValueId id) { return sent[static_cast<size_t>(id.index)]; });
    if (!is_message && !is_sent) {
      parts[at] = schedule.weights();
      continue;
    }
    std::ranges::for_each(op.inputs, need);
    need(op.predicate);
  }
  return parts;
}

class Pipeline {
 public:
  Pipeline(Module& module, const Recipe& recipe)
      : module_(module),
        first_(module.program_index(ProgramRole::training_first)),
        body_(module.programs[static_cast<size_t>(first_)]),
        schedule_(recipe) {}

  void run() {
    const std::vector<ProgramRuns> runs = schedule_.runs();
    const auto last_part = static_cast<StagePart>(schedule_.parts() - 1);
    in_places_ = runs.size() > 1 && schedule_.places(kFirst, last_part) > 1;
    parts_ = parts_of(module_, body_.ops, schedule_);
    if (in_places_) take_from_staging();
    find_kept();
    if (in_places_) add_places();
    for (const ProgramRuns& run : runs) {
      const std::string name(program_name(run.role));
      module_.step.push_back({run.times, {name}});
      if (run.role != ProgramRole::training_first) module_.programs.push_back(program_of(run));
    }
    replace_program(module_, first_, program_of(runs[0]));
  }

 private:
  // What one part makes and a later one reads.
  struct Kept {
    ValueId value;
    size_t op, output;
    StagePart read = {};  // last
    std::vector<ValueId> places = {};
  };
  struct KeptInput {
    StagePart read = {};
    std::vector<ValueId> places = {};
  };
  struct Instance {
    std::vector<std::vector<Op>> parts;
    std::vector<bool> has;
    std::vector<ValueId> kept = {};          // its own
    std::map<ValueId, ValueId> inputs = {};  // copies of those that later parts read, by input

    std::vector<Op>& ops(StagePart part) { return parts[static_cast<size_t>(part)]; }
    bool has_part(StagePart part) const { return has[static_cast<size_t>(part)]; }
  };
  static constexpr StagePart kFirst = 0;  // takes the micro-batch's inputs

  // By value that owns its bytes: the last part that reads it.
  std::vector<StagePart> last_reads() const {
    std::vector<StagePart> last(module_.values.size(), kFirst);
    for (size_t at = 0; at < body_.ops.size(); ++at) {
      const auto read = [&](ValueId id) {
        if (!id.valid()) return;
        StagePart& part = last[static_cast<size_t>(module_.root(id).index)];
        part = std::max(part, parts_[at]);
      };
      std::ranges::for_each(body_.ops[at].inputs, read);
      read(body_.ops[at].predicate);
    }
    return last;
  }

  // A place is free when the last part before is done that reads it, and what comes next comes meanwhile.
  void take_from_staging() {
    const std::vector<StagePart> last = last_reads();
    std::vector<Op> ops;
    std::vector<StagePart> parts;
    for (size_t at = 0; at < body_.ops.size(); ++at) {
      ops.push_back(std::move(body_.ops[at]));
      parts.push_back(parts_[at]);
      if (ops.back().def->comm != Comm::recv) continue;
      const ValueId taken = ops.back().outputs[0];
      if (last[static_cast<size_t>(taken.index)] <= parts_[at]) continue;
      Value staging = module_[taken];
      staging.name += ".staging";
      staging.category = Category::comm;
      ops.back().outputs[0] = module_.add(staging);
      ops.push_back({.def = &ops::copy_def,
                     .name = module_[taken].name + ".taken",
                     .inputs = {ops.back().outputs[0]},
                     .outputs = {taken},
                     .layer = ops.back().layer,
                     .phase = ops.back().phase,
                     .chunk = ops.back().chunk});
      parts.push_back(parts_[at]);
    }
    parts_ = std::move(parts);
    body_.ops = std::move(ops);
  }

  void find_kept() {
    const std::vector<StagePart> last = last_reads();
    const auto read = [&](ValueId id) { return last[static_cast<size_t>(id.index)]; };
    for (size_t at = 0; at < body_.ops.size(); ++at) {
      const std::vector<ValueId>& outputs = body_.ops[at].outputs;
      for (size_t o = 0; o < outputs.size(); ++o)
        if (read(outputs[o]) > parts_[at])
          kept_.push_back({.value = outputs[o], .op = at, .output = o, .read = read(outputs[o])});
    }
    std::ranges::sort(kept_, {}, &Kept::value);
    for (int32_t i = 0; i < static_cast<int32_t>(module_.values.size()); ++i)
      if (is_of_micro_batch(module_[ValueId{i}]) && read(ValueId{i}) > kFirst)
        kept_inputs_[ValueId{i}].read = read(ValueId{i});
  }

  // A shared value for each micro-batch that may be under way.
  void add_places() {
    const auto add = [&](const Value& like, StagePart made, StagePart read) {
      std::vector<ValueId> places;
      for (int64_t slot = 0; slot < schedule_.places(made, read); ++slot) {
        places.push_back(add_shared(module_, fmt::format("{}.kept@{}", like.name, slot), like.type,
                                    like.category, Scope::step, {}, like.layer));
        module_[places.back()].padded = like.padded;
        module_[places.back()].param = nullptr;
      }
      return places;
    };
    for (Kept& kept : kept_)
      kept.places = add(Value(module_[kept.value]), parts_[kept.op], kept.read);
    for (auto& [id, input] : kept_inputs_)
      input.places = add(Value(module_[id]), kFirst, input.read);
  }

  Program program_of(const ProgramRuns& run) {
    const int64_t lowest = std::ranges::min(run.units, {}, &Unit::micro_batch).micro_batch;
    Program program{
        .name = std::string(program_name(run.role)), .role = run.role, .micro_batches = 0};
    std::map<int64_t, Instance> instances;
    std::vector<std::vector<Op>> units;
    for (const Unit& unit : run.units) {
      if (!instances.contains(unit.micro_batch))
        instances[unit.micro_batch] = instance_of(unit.micro_batch - lowest, program.name);
      Instance& instance = instances.at(unit.micro_batch);
      if (unit.part == kFirst) {
        feed(instance, program.micro_batches++);
      } else if (in_places_) {
        read_places(instance, unit);
      }
      instance.has[static_cast<size_t>(unit.part)] = true;
      if (std::vector<Op>& ops = instance.ops(unit.part); !ops.empty())
        units.push_back(std::move(ops));
    }
    program.ops = joined(std::move(units));
    add_to_carried_values(module_, program, run.role != ProgramRole::training_first);
    if (in_places_) write_places(instances);
    return program;
  }

  Instance instance_of(int64_t index, const std::string& program) {
    Program copy = clone(module_, body_, program, index == 0 ? "" : fmt::format("@{}", index));
    Instance instance{.parts = std::vector<std::vector<Op>>(schedule_.parts()),
                      .has = std::vector<bool>(schedule_.parts())};
    for (const Kept& kept : kept_) instance.kept.push_back(copy.ops[kept.op].outputs[kept.output]);
    for (size_t at = 0; at < copy.ops.size(); ++at) {
      copy.ops[at].micro_batch = static_cast<int32_t>(index);
      instance.ops(parts_[at]).push_back(std::move(copy.ops[at]));
    }
    return instance;
  }

  static size_t slot_of(int64_t micro_batch, const std::vector<ValueId>& places) {
    return static_cast<size_t>(micro_batch % static_cast<int64_t>(places.size()));
  }

  // The micro-batch is the n-th that is fed before the program.
  void feed(Instance& instance, int64_t n) {
    if (in_places_) keep_inputs(instance);
    for (size_t later = kFirst + 1; later < instance.parts.size(); ++later) {
      if (in_places_) {
        read_instead(instance.parts[later], instance.inputs);
      } else {
        give_own_inputs(module_, instance.parts[later], n);
      }
    }
    give_own_inputs(module_, instance.ops(kFirst), n);
  }

  // Inputs are overwritten before the next program.
  void keep_inputs(Instance& instance) {
    std::vector<Op>& first = instance.ops(kFirst);
    const int32_t index = first.front().micro_batch;
    for (const auto& [input, kept] : kept_inputs_) {
      const Value value = module_[input];
      Value version = value;
      version.name = fmt::format("{}.copy@{}", value.name, index);
      version.scope = Scope::local;
      version.program = static_cast<int32_t>(module_.programs.size());
      const ValueId copy = instance.inputs[input] = module_.add(version);
      first.push_back({.def = &ops::copy_def,
                       .name = version.name,
                       .inputs = {input},
                       .outputs = {copy},
                       .micro_batch = index});
    }
  }

  // What was made in an earlier program.
  void read_places(Instance& instance, const Unit& unit) {
    std::map<ValueId, ValueId> place_of;
    for (size_t i = 0; i < kept_.size(); ++i) {
      const Kept& kept = kept_[i];
      if (!instance.has_part(parts_[kept.op]) && parts_[kept.op] < unit.part)
        place_of[instance.kept[i]] = kept.places[slot_of(unit.micro_batch, kept.places)];
    }
    if (!instance.has_part(kFirst))
      for (const auto& [id, input] : kept_inputs_)
        place_of[id] = input.places[slot_of(unit.micro_batch, input.places)];
    read_instead(instance.ops(unit.part), place_of);
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
      for (size_t i = 0; i < kept_.size(); ++i) {
        const Kept& kept = kept_[i];
        if (instance.has_part(parts_[kept.op]))
          module_[instance.kept[i]].base = kept.places[slot_of(micro_batch, kept.places)];
      }
      for (const auto& [id, copy] : instance.inputs) {
        const std::vector<ValueId>& places = kept_inputs_.at(id).places;
        module_[copy].base = places[slot_of(micro_batch, places)];
      }
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
  StageSchedule schedule_;
  bool in_places_ = false;        // else what is kept is local
  std::vector<StagePart> parts_;  // by op of the body
  std::vector<Kept> kept_;
  std::map<ValueId, KeptInput> kept_inputs_;
};

}  // namespace

void pipeline_order(Module& module, const Recipe& recipe) { Pipeline(module, recipe).run(); }

}  // namespace snug
