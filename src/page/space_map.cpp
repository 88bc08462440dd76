#include "page/space_map.h"

#include <algorithm>

#include "ir/order.h"
#include "placement/space_values.h"

namespace snug {
namespace {

// The op that makes a value, and the last one that touches it, by instant; -1: none on the page.
struct Use {
  int64_t made = -1, last = -1;
};

std::vector<Use> uses_of(const Module& module, const Axis& axis) {
  const std::vector<Extent> extents = extents_of(module);
  std::vector<Use> uses(module.values.size());
  for (const int32_t p : axis.programs()) {
    const std::vector<Op>& ops = module.programs[static_cast<size_t>(p)].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      const int64_t at = axis.instant(p, static_cast<int64_t>(i));
      for_each_access(ops[i], [&](ValueId id, bool writes) {
        const ValueId root = extents[static_cast<size_t>(id.index)].root;
        Use& use = uses[static_cast<size_t>(root.index)];
        if (writes && use.made < 0) use.made = at;
        use.last = std::max(use.last, at);
      });
    }
  }
  return uses;
}

struct Rectangle {
  const Value* value = nullptr;
  Use use;
  int64_t first = 0, last = 0;  // instants

  double area() const {
    return static_cast<double>(value->storage_bytes()) * static_cast<double>(last - first + 1);
  }
};

std::vector<Rectangle> rectangles_of(const Module& module, Space space, const Axis& axis) {
  const std::vector<Use> uses = uses_of(module, axis);
  std::vector<Rectangle> all;
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    if (!resides(value, space) || value.storage_bytes() == 0) continue;
    if (value.shared()) {
      const Use use{.last = uses[i].last};  // it was there before the step
      all.push_back({&value, use, 0, axis.size() - 1});
    } else if (axis.shows(value.program)) {
      const Block block = block_of(value);
      all.push_back({&value, uses[i], axis.instant(value.program, block.first),
                     axis.instant(value.program, block.last)});
    }
  }
  return all;
}

Json values_json(const Module& module, Space space, const Axis& axis, Texts& texts) {
  std::vector<Rectangle> all = rectangles_of(module, space, axis);
  std::ranges::stable_sort(all, std::greater(), &Rectangle::area);
  const size_t shown = std::min(all.size(), static_cast<size_t>(kMostValues));
  int64_t left_out = 0;
  for (size_t i = shown; i < all.size(); ++i) left_out += all[i].value->storage_bytes();
  Json name = Json::array(), type = name, layer = name, category = name, offset = name;
  Json bytes = name, first = name, last = name, made = name, used = name;
  for (size_t i = 0; i < shown; ++i) {
    const Rectangle& r = all[i];
    const Value& value = *r.value;
    name.push_back(texts.index(without_layer(module.layers, value.name, value.layer)));
    type.push_back(texts.index(value.type.text()));
    layer.push_back(value.layer);
    category.push_back(static_cast<int>(value.category));
    offset.push_back(*value.offset);
    bytes.push_back(value.storage_bytes());
    first.push_back(r.first);
    last.push_back(r.last);
    made.push_back(r.use.made);
    used.push_back(r.use.last);
  }
  return {{"all", all.size()}, {"left_out_bytes", left_out},
          {"name", name},      {"type", type},
          {"layer", layer},    {"category", category},
          {"offset", offset},  {"bytes", bytes},
          {"first", first},    {"last", last},
          {"made", made},      {"used", used}};
}

// Of the ops of an instant, the one at which most lives.
std::vector<CategoryBytes> live_by_instant(const Module& module, Space space, const Axis& axis) {
  std::vector<CategoryBytes> live(static_cast<size_t>(axis.size()));
  for (const int32_t program : axis.programs()) {
    const std::vector<CategoryBytes> by_op = timeline(module, program, space);
    for (size_t op = 0; op < by_op.size(); ++op) {
      CategoryBytes& at =
          live[static_cast<size_t>(axis.instant(program, static_cast<int64_t>(op)))];
      if (total(by_op[op]) >= total(at)) at = by_op[op];
    }
  }
  return live;
}

}  // namespace

Json space_json(const Module& placed, const SpaceBreakdown& memory, Space space, const Axis& axis,
                std::optional<int64_t> limit, Texts& texts) {
  const std::vector<CategoryBytes> live = live_by_instant(placed, space, axis);
  Json courses = Json::array();
  for (size_t c = 0; c < kCategories; ++c) {
    std::vector<int64_t> course;
    for (const CategoryBytes& at : live) course.push_back(at[c]);
    courses.push_back(changes_of(course));
  }
  const int32_t peak = placed.program_index(memory.peak.program);
  return {{"name", name_of(space)},
          {"axis", 0},
          {"arena", memory.placement.arena_bytes},
          {"arena_words", "arena"},
          {"map_bytes", memory.placement.arena_bytes},
          {"max_live", memory.placement.max_live_bytes},
          {"limit", or_null(limit)},
          {"peak", peak < 0 ? Json(nullptr) : Json(axis.instant(peak, memory.peak.op_index))},
          {"at_peak", memory.breakdown},
          {"gaps", memory.gaps},
          {"live", courses},
          {"values", values_json(placed, space, axis, texts)}};
}

}  // namespace snug
