#include <algorithm>
#include <array>
#include <map>

#include "ir/lifetime.h"
#include "ir/verifier_parts.h"

namespace snug::verifying {
namespace {

// The bytes of an owner in its arena.
struct Block {
  int64_t begin, end;
  ValueId owner;
};

Error clash(const Module& module, ValueId a, ValueId b) {
  return wrong_value(module, a, "shares bytes with '{}' while both are alive", module[b].name);
}

// Disjoint blocks by offset; one that overlaps another is refused.
class Occupied {
 public:
  explicit Occupied(const Module& module) : module_(module) {}

  void add(const Block& block) {
    if (const Block* other = overlapping(block)) throw clash(module_, block.owner, other->owner);
    blocks_.emplace(block.begin, block);
  }
  void remove(const Block& block) { blocks_.erase(block.begin); }

  const Block* overlapping(const Block& block) const {
    const auto after = blocks_.lower_bound(block.begin);
    if (after != blocks_.end() && after->second.begin < block.end) return &after->second;
    if (after != blocks_.begin() && std::prev(after)->second.end > block.begin)
      return &std::prev(after)->second;
    return nullptr;
  }

 private:
  const Module& module_;
  std::map<int64_t, Block> blocks_;
};

Block block_of(const Module& module, ValueId id) {
  const Value& v = module[id];
  const int64_t arena = module.arena_bytes[static_cast<size_t>(v.space)];
  if (!v.offset) throw wrong_value(module, id, "has no offset");
  if (*v.offset < 0 || *v.offset % alignment_of(v.space) != 0) {
    throw wrong_value(module, id, "is at byte {}, which is no multiple of {}", *v.offset,
                      alignment_of(v.space));
  }
  const int64_t bytes = v.storage_bytes();
  if (bytes > arena || *v.offset > arena - bytes) {
    throw wrong_value(module, id, "its {} bytes at {} end beyond the arena of {}", bytes, *v.offset,
                      arena);
  }
  return {*v.offset, *v.offset + bytes, id};
}

// Walks a program's ops: values come when their lifetime begins and go after it has ended.
void sweep(const Module& module, std::vector<Block>& blocks, const Occupied& shared) {
  auto live = [&](const Block& b) -> const Lifetime& { return *module[b.owner].live; };
  std::ranges::sort(blocks, {}, [&](const Block& b) { return live(b).first; });
  std::vector<const Block*> leaving;
  for (const Block& b : blocks) leaving.push_back(&b);
  std::ranges::sort(leaving, {}, [&](const Block* b) { return live(*b).last; });
  Occupied now(module);
  auto next_to_leave = leaving.begin();
  for (const Block& b : blocks) {
    for (; live(**next_to_leave).last < live(b).first; ++next_to_leave) now.remove(**next_to_leave);
    if (const Block* other = shared.overlapping(b)) throw clash(module, b.owner, other->owner);
    now.add(b);
  }
}

}  // namespace

void check_step(const Facts& facts, Backend backend) {
  const Module& module = facts.module;
  for (const Program& program : module.programs) {
    for (const Op& op : program.ops) {
      const int64_t needs =
          cost_of(module, op, backend_in(space_of(module, op), backend)).workspace;
      const int64_t has = op.workspace.valid() ? module[op.workspace].storage_bytes() : 0;
      if (has < needs)
        throw wrong_op(program, op, "needs {} bytes of workspace and has {}", needs, has);
    }
  }
  const auto lives = lifetimes_of(module, Orders(module, facts.extents));
  auto text = [](const std::optional<Lifetime>& l) {
    return l ? fmt::format("{}..{}", l->first, l->last) : "nothing";
  };
  for (size_t i = 0; i < lives.size(); ++i) {
    const auto& said = module.values[i].live;
    if (said != lives[i])
      throw wrong_value(module, {static_cast<int32_t>(i)}, "says it lives {}, not {}", text(said),
                        text(lives[i]));
  }
}

void check_placement(const Facts& facts) {
  const Module& module = facts.module;
  std::vector<Occupied> shared(kSpaces, Occupied(module));
  using BySpace = std::array<std::vector<Block>, kSpaces>;
  std::vector<BySpace> locals(module.programs.size());
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& v = module.values[i];
    if (!facts.used[i] || !v.owns_bytes()) continue;
    const Block block = block_of(module, {static_cast<int32_t>(i)});
    if (block.begin == block.end) continue;
    const auto space = static_cast<size_t>(v.space);
    if (v.shared()) {
      shared[space].add(block);
    } else {
      locals[static_cast<size_t>(v.program)][space].push_back(block);
    }
  }
  for (BySpace& program : locals) {
    for (size_t space = 0; space < kSpaces; ++space) sweep(module, program[space], shared[space]);
  }
}

}  // namespace snug::verifying
