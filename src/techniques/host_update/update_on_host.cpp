// Updates on the host's cores (Recipe::host_update): where an update's state is in host memory, the
// op computes there, on that memory. What it reads of the device is copied to the host before it, a
// scalar once per program, and a parameter that is stored on the device is copied there after it.
// Nothing is computed differently.
//
// Updates in a row are a unit: a layer's where backward or forward update, else as many as have a
// slice's elements together. The copies of a unit begin when the unit before the last has ended, and
// so does what the device computes after it: staging does not grow with the number of layers.
#include "techniques/host_update/update_on_host.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/builder.h"
#include "ops/basic/copy.h"

namespace snug {
namespace {

class HostUpdates {
 public:
  HostUpdates(Module& module, size_t program, const Recipe& recipe)
      : module_(module), recipe_(recipe), builder_(module, module.programs[program].name) {}

  void run() {
    const Program& program = builder_.program();
    if (std::ranges::none_of(program.ops, [&](const Op& op) { return runs_on_host(op); })) return;
    only_updates_ = !is_training(program.role);
    for (Op& op : std::exchange(builder_.program().ops, {})) {
      made_.insert(op.outputs.begin(), op.outputs.end());
      if (runs_on_host(op)) {
        add_to_unit(op);
        update(std::move(op));
      } else {
        if (!only_updates_ && !held_until_.empty())
          op.after.push_back(std::exchange(held_until_, ""));
        computed_ = op.name;
        builder_.program().ops.push_back(std::move(op));
      }
    }
  }

 private:
  // Does it write optimizer state or a master, all that it writes of them in host memory, and use
  // nothing that is on disk?
  bool runs_on_host(const Op& op) const {
    if (op.phase != Phase::update || !recipe_.host_update.covers(op.layer)) return false;
    const auto is_kept = [&](ValueId id) {
      const Category category = module_[module_.root(id)].category;
      return category == Category::optimizer || category == Category::master;
    };
    if (std::ranges::any_of(op.inputs, [&](ValueId id) { return id.valid() && is_on_disk(id); }))
      return false;
    return std::ranges::any_of(op.outputs, is_kept) &&
           std::ranges::all_of(op.outputs,
                               [&](ValueId id) { return !is_kept(id) || is_at_home(id); });
  }

  // Are its bytes in host memory?
  bool is_at_home(ValueId id) const { return space_of(id) == Space::host; }
  bool is_on_disk(ValueId id) const { return space_of(id) == Space::disk; }
  Space space_of(ValueId id) const {
    const Value& root = module_[module_.root(id)];
    const auto item = offload_item(root.category);
    return root.shared() && item ? recipe_.offload.space_of(*item, root.layer) : Space::device;
  }

  void add_to_unit(const Op& op) {
    const int64_t elements = module_[op.outputs[0]].type.shape.elements();
    const bool goes_on = !units_.empty() &&
                         (only_updates_ ? units_.back().elements + elements <= recipe_.offload.slice
                                        : units_.back().layer == op.layer);
    if (!goes_on) {
      units_.push_back({.layer = op.layer, .computed = computed_});
      is_bounded_ = false;
      if (units_.size() > 2) held_until_ = before_last().last;
    }
    units_.back().elements += elements;
  }

  struct Unit {
    int32_t layer = kNoLayer;
    int64_t elements = 0;  // that it updates
    std::string computed;  // the device's op before it
    std::string last;      // of its own
  };
  const Unit& before_last() const { return units_[units_.size() - 3]; }

  void update(Op op) {
    builder_.set_layer(op.layer);
    builder_.set_phase(op.phase);
    std::vector<std::pair<ValueId, ValueId>> to_device;  // what the op makes -> on the device
    for (const Alias& alias : op.def->alias) leave_out(op, alias);
    for (ValueId& id : op.inputs) {
      if (id.valid()) id = on_host(id);
    }
    if (op.predicate.valid()) op.predicate = on_host(op.predicate);
    for (const Alias& alias : op.def->alias) {
      ValueId& made = op.outputs[static_cast<size_t>(alias.output)];
      if (is_at_home(made)) {
        module_[made].space = Space::host;
        continue;
      }
      const ValueId version = version_of(op.inputs[static_cast<size_t>(alias.input)], made);
      to_device.push_back({version, std::exchange(made, version)});
    }
    units_.back().last = op.name;
    bound(op);
    builder_.program().ops.push_back(std::move(op));
    for (const auto& [from, to] : to_device) put(from, to);
  }

  // What the device has and the op can make without its old bytes (a weight, from its master) is not
  // copied.
  void leave_out(Op& op, const Alias& alias) {
    const auto i = static_cast<size_t>(alias.input);
    const Port& port = op.def->port_of_input(i);
    if (!port.optional() || !op.inputs[i].valid() || is_at_home(op.inputs[i])) return;
    op.attrs.set(std::string(port.name), std::string(name_of(module_[op.inputs[i]].type.dtype)));
    op.inputs[i] = {};
  }

  // On the host: the next version of `in`, or a value of its own where there is none.
  ValueId version_of(ValueId in, ValueId made) {
    const ValueId version = builder_.view(in.valid() ? in : made, module_[made].name + ".on_host",
                                          module_[made].type.shape, /*offset=*/0);
    Value& value = module_[version];
    if (!in.valid()) value.base = {};
    value.space = Space::host;
    value.category = Category::staging;
    return version;
  }

  // What the op reads in place of `id`: the value itself where it is stored on the host.
  ValueId on_host(ValueId id) {
    if (is_at_home(id)) {
      const ValueId of = viewed(id);
      // `offload_values` evicts what the device has made; the device may read this view of it, too.
      if (!module_[of].shared() && module_[of].space == Space::device) return id;
      for (ValueId at = id; at != of; at = module_[at].base) module_[at].space = Space::host;
      return id;
    }
    if (module_[id].type.shape.rank() > 0) return copy_to_host(id);
    const auto [scalar, is_new] = scalars_.try_emplace(id);
    if (is_new) scalar->second = copy_to_host(id);
    return scalar->second;
  }

  // What it is a view of: a shared value, or what an op of the program made.
  ValueId viewed(ValueId id) const {
    while (!module_[id].shared() && !made_.contains(id)) id = module_[id].base;
    return id;
  }

  ValueId copy_to_host(ValueId id) {
    const ValueId staged = ops::copy(builder_, module_[id].name + ".to_host", id, Space::host);
    module_[staged].category = Category::staging;
    bound(builder_.last());
    return staged;
  }

  // The first op of a unit waits, and so do the others, which follow it on its lane or use what it
  // made.
  void bound(Op& op) {
    if (std::exchange(is_bounded_, true) || units_.size() < 3) return;
    op.after.push_back(before_last().last);
    const std::string& computed = units_[units_.size() - 2].computed;
    if (!computed.empty()) op.after.push_back(computed);
  }

  // `to` was the op's output; now the copy makes it.
  void put(ValueId from, ValueId to) {
    ops::copy(builder_, module_[to].name + ".to_device", from, Space::device);
    builder_.last().outputs = {to};
    units_.back().last = builder_.last().name;
  }

  Module& module_;
  const Recipe& recipe_;
  Builder builder_;
  bool only_updates_ = false;
  std::vector<Unit> units_;
  bool is_bounded_ = false;             // the copies of the last unit
  std::set<ValueId> made_;              // by the program's ops so far
  std::map<ValueId, ValueId> scalars_;  // on the host
  std::string computed_;                // the device's last op
  std::string held_until_;              // what its next op waits for
};

}  // namespace

void update_on_host(Module& module, const Recipe& recipe) {
  if (!recipe.host_update.on) return;
  for (size_t p = 0; p < module.programs.size(); ++p) HostUpdates(module, p, recipe).run();
}

}  // namespace snug
