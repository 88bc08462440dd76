#include "search/layer_kinds.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "ir/op_def.h"
#include "search/layer_costs.h"
#include "techniques/recompute/recompute.h"

namespace snug {
namespace {

std::unordered_set<std::string_view> read_by_backward(const Module& module) {
  std::unordered_set<std::string_view> names;
  for (const Op& op : training_program(module).ops) {
    if (op.phase == Phase::forward) continue;
    for (ValueId id : op.inputs) {
      if (id.valid()) names.insert(module[id].name);
    }
  }
  return names;
}

std::string name_to_drop(const Module& module, const Op& op, size_t port) {
  const bool origin = op.def->recompute_from_output &&
                      op.def->recompute_from_output->from == static_cast<int>(port);
  return std::string(
      module.name_in_layer(origin ? module[op.outputs[port]].name : op.name, op.layer));
}

void add(std::vector<Droppable>& list, Droppable part) {
  const auto same = std::ranges::find(list, part.name, &Droppable::name);
  if (same == list.end()) {
    list.push_back(std::move(part));
  } else {
    same->bytes += part.bytes;
  }
}

}  // namespace

LayerKinds layer_kinds(const Module& none, const Module& full) {
  const auto before = read_by_backward(none);
  const auto after = read_by_backward(full);
  std::vector<std::vector<Droppable>> by_layer;
  for (const Op& op : training_program(none).ops) {
    if (op.phase != Phase::forward || op.layer < 0) continue;
    const auto layer = static_cast<size_t>(op.layer);
    by_layer.resize(std::max(by_layer.size(), layer + 1));
    for (size_t port = 0; port < op.outputs.size(); ++port) {
      const Value& value = none[op.outputs[port]];
      if (!before.contains(value.name) || after.contains(value.name)) continue;
      add(by_layer[layer], {name_to_drop(none, op, port), value.type.bytes(), op.def->selective});
    }
  }
  LayerKinds out;
  for (auto& layer : by_layer) {
    const auto known = std::ranges::find(out.kinds, layer);
    out.of_layer.push_back(static_cast<int>(known - out.kinds.begin()));
    if (known == out.kinds.end()) out.kinds.push_back(std::move(layer));
  }
  return out;
}

}  // namespace snug
