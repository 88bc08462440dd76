// What several ranks have made, added up: gradients and losses. Where `recipe.sums_apart` says so,
// every micro-batch's gradient is complete before it is added to those before it, on one device as
// well: then N ranks add the same numbers in the same order as one device with N micro-batches.
//
//   apart, or a shard of the gradient is carried   after every micro-batch, or program:
//       exchange, and add the blocks of all ranks to what is carried
//   else                                           after the step's last micro-batch:
//       exchange what this rank has carried, and put the sum in its place
//
// A rank sums its own block (ops/comm/rank_sum), in the order of the ranks. On a GPU, where bits need not
// repeat, the engine's library sums on the way (`reduce_scatter`): what is received is one block, not
// one of each rank. Where all need all of it, they gather it at last. Where a shard has several copies,
// each rank sums its part of the shard, and those that have the same shard gather it.
// What is summed whole is small: a layer's gradients are exchanged together, in one row (ops/comm/pack).
#include "techniques/zero/zero.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "base/units.h"
#include "ir/builder.h"
#include "ops/comm/comm.h"
#include "ops/comm/pack.h"
#include "ops/comm/rank_sum.h"
#include "passes/mesh.h"
#include "passes/shared_names.h"
#include "passes/updates.h"

namespace snug {
namespace {

// Up to here one gather to all is better than two collectives.
constexpr int64_t kSmall = 65536;  // elements
// Blocks begin where kernels like it.
constexpr int64_t kAligned = 64;
// Layers between an exchange and its sum.
constexpr int64_t kAhead = 1;

// A carried value and how it is summed.
struct Summed {
  Cut cut;                    // how ranks share the sum; none: each makes all of it
  bool sharded = false;       // only this rank's shard is carried
  bool gathered = false;      // all need all of it in the end
  int64_t copies = 1;         // of a shard; each of those ranks sums one part of it
  bool in_one_piece = false;  // what is carried is written whole

  int64_t part() const { return cut.block / copies; }
};

class ProgramSums {
 public:
  ProgramSums(Module& module, size_t program, const Recipe& recipe,
              const std::map<ValueId, Summed>& carried)
      : module_(module),
        sharding_(recipe.sharding),
        apart_(recipe.sums_apart && is_training(module.programs[program].role)),
        stages_(recipe.mesh.pp > 1),
        by_library_(sharding_.on() && recipe.backend == Backend::cuda && !recipe.sums_apart),
        carried_(carried),
        builder_(module, module.programs[program].name),
        ops_(std::exchange(builder_.program().ops, {})),
        last_program_(is_last(builder_.program().role)) {
    find_writes();
  }

  void run() {
    std::map<size_t, std::vector<Chain*>> ends;  // by op: what is complete after it
    for (auto& [key, chain] : chains_) {
      link(chain);
      sums(chain) && takes_apart(chain) ? take_apart(chain) : keep_padding(chain);
      chain.made = id_of(chain.writes.back());
      ends[chain.writes.back().op].push_back(&chain);
    }
    for (size_t at = 0; at < ops_.size(); ++at) {
      go_to(ops_[at]);
      builder_.program().ops.push_back(std::move(ops_[at]));
      const auto complete = ends.find(at);
      if (complete == ends.end()) continue;
      for (const Chain* chain : complete->second) begin_sum(*chain);
    }
    exchange_small();
    finish_sums(/*ahead=*/0);
  }

 private:
  struct Write {
    size_t op, output;
  };
  // The writes of one carried value that are summed together.
  struct Chain {
    ValueId carried;
    std::vector<Write> writes = {};
    ValueId made = {};   // by the last of them
    bool adds = false;   // to what was carried before
    bool apart = false;  // its sum is a value of its own
  };

  // A sum whose exchange is under way.
  struct Begun {
    const Chain* chain;
    int64_t segment;
    ValueId blocks;
    int64_t ranks;       // whose blocks they are; one: the library has summed them
    int64_t first = -1;  // in blocks that are rows of several
  };
  struct Place {
    int32_t layer, micro_batch;
    Phase phase;
    friend bool operator==(const Place&, const Place&) = default;
  };

  bool is_last(ProgramRole role) const {
    return role == ProgramRole::evaluation || role == last_training_program(module_);
  }

  const Summed& how(const Chain& chain) const { return carried_.at(chain.carried); }
  Op& op_of(const Write& write) { return ops_[write.op]; }
  ValueId id_of(const Write& write) { return op_of(write).outputs[write.output]; }

  void find_writes() {
    for (size_t at = 0; at < ops_.size(); ++at) {
      for (size_t o = 0; o < ops_[at].outputs.size(); ++o) {
        const ValueId root = module_.root(ops_[at].outputs[o]);
        if (!carried_.contains(root)) continue;
        const bool by_micro_batch = apart_ || (stages_ && carried_.at(root).sharded);
        const int32_t together = by_micro_batch ? ops_[at].micro_batch : 0;
        Chain& chain = chains_[{root, together}];
        chain.carried = root;
        if (chain.writes.empty()) {
          const int port = ops_[at].def->accumulator_of(static_cast<int>(o));
          chain.adds = port >= 0 && ops_[at].inputs[static_cast<size_t>(port)].valid();
        }
        chain.writes.push_back({at, o});
      }
    }
  }

  bool sums(const Chain& chain) const {
    if (!sharding_.on()) return apart_ && chain.adds;
    return apart_ || how(chain).sharded || last_program_;
  }
  bool takes_apart(const Chain& chain) const { return apart_ || how(chain).sharded; }

  // Each adds to the one before it: among micro-batches that go through a layer together, those of
  // others were between.
  void link(const Chain& chain) {
    for (size_t w = 1; w < chain.writes.size(); ++w) {
      const Write& write = chain.writes[w];
      const int port = op_of(write).def->accumulator_of(static_cast<int>(write.output));
      op_of(write).inputs[static_cast<size_t>(port)] = id_of(chain.writes[w - 1]);
    }
  }

  // What the ops make is a value of its own from now on.
  void take_apart(Chain& chain) {
    chain.apart = true;
    const ValueId first = id_of(chain.writes.front());
    Op& maker = op_of(chain.writes.front());
    if (chain.adds) {
      const int port = maker.def->accumulator_of(static_cast<int>(chain.writes.front().output));
      maker.inputs[static_cast<size_t>(port)] = {};
    }
    module_[first].base = {};
    if (how(chain).cut.on()) pad(module_[first], how(chain).cut);
    for (size_t w = 1; w < chain.writes.size(); ++w) {
      module_[id_of(chain.writes[w])].base = first;
      module_[id_of(chain.writes[w])].padded = module_[first].padded;
    }
  }

  // A version of what is carried has all of its bytes, or nothing could be added to it in place.
  void keep_padding(const Chain& chain) {
    for (const Write& write : chain.writes)
      module_[id_of(write)].padded = module_[chain.carried].padded;
  }

  // Sums are finished while the layer after the next is computed: the exchange has that long.
  void go_to(const Op& op) {
    const Place place{op.layer, op.micro_batch, op.phase};
    if (place_ != place) {
      exchange_small();
      ++segment_;
      place_ = place;
    }
    builder_.set_layer(op.layer);
    builder_.set_phase(op.phase);
    finish_sums(kAhead);
  }

  void finish_sums(int64_t ahead) {
    while (!begun_.empty() && (ahead == 0 || begun_.front().segment + ahead < segment_)) {
      finish_sum(begun_.front());
      begun_.pop_front();
    }
  }

  void begin_sum(const Chain& chain) {
    if (!sums(chain)) {
      latest_[chain.carried] = chain.made;
      return;
    }
    if (!sharding_.on()) {
      finish_sum({&chain, segment_, flat(chain), sharding_.ranks});
    } else if (how(chain).cut.on()) {
      begun_.push_back({&chain, segment_, exchanged(chain), by_library_ ? 1 : sharding_.ranks});
    } else if (module_[chain.carried].parameter.valid()) {
      small_.push_back(&chain);
    } else {
      exchange_together({&chain});  // the loss: updates in backward wait for it
    }
  }

  ValueId flat(const Chain& chain) {
    return view(chain.made, "flat", {module_[chain.carried].type.shape.elements()}, 0);
  }

  // What all ranks have made of this rank's block.
  ValueId exchanged(const Chain& chain) {
    const ValueId made = view(chain.made, "blocks", {how(chain).cut.padded()}, 0);
    const auto exchange = by_library_ ? ops::reduce_scatter : ops::all_to_all;
    return received(
        exchange(builder_, module_[chain.carried].name + ".exchange", made, over_all(sharding_)),
        chain);
  }

  // What all ranks have made of all that is small and waits, a row for each type.
  void exchange_small() {
    while (!small_.empty()) {
      const auto type_of = [&](const Chain* chain) { return module_[chain->made].type.dtype; };
      const auto others = std::stable_partition(
          small_.begin(), small_.end(),
          [&, dtype = type_of(small_[0])](const Chain* c) { return type_of(c) == dtype; });
      const std::vector<const Chain*> same(small_.begin(), others);
      small_.erase(small_.begin(), others);
      exchange_together(same);
    }
  }

  void exchange_together(const std::vector<const Chain*>& chains) {
    const std::string name = module_[chains[0]->carried].name;
    std::vector<ValueId> parts;
    for (const Chain* chain : chains) parts.push_back(flat(*chain));
    ValueId row = parts[0];
    if (parts.size() > 1) {
      row = ops::pack(builder_, name + ".pack", parts);
      builder_.last().micro_batch = place_->micro_batch;
      module_[row].category = Category::comm;
    }
    // The loss is summed in the order of the ranks everywhere: it costs nothing.
    const bool reduced = by_library_ && module_[chains[0]->carried].parameter.valid();
    const auto exchange = reduced ? ops::all_reduce : ops::all_gather;
    const ValueId blocks =
        received(exchange(builder_, name + ".exchange", row, over_all(sharding_)), *chains[0]);
    const int64_t ranks = reduced ? 1 : sharding_.ranks;
    int64_t first = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      begun_.push_back({chains[i], segment_, blocks, ranks, parts.size() > 1 ? first : -1});
      first += ops::packed(module_[parts[i]].type.shape.elements());
    }
  }

  ValueId received(ValueId blocks, const Chain& chain) {
    module_[blocks].category = Category::comm;
    module_[blocks].layer = module_[chain.carried].layer;
    return blocks;
  }

  void finish_sum(const Begun& begun) {
    how(*begun.chain).cut.on() ? sum_block(begun) : sum_all(begun);
  }

  // What was carried before, as far as this rank adds to it.
  ValueId before(const Chain& chain, Shape shape, int64_t first) {
    if (!chain.apart || !chain.adds) return {};
    const auto latest = latest_.find(chain.carried);
    if (latest != latest_.end())
      return view(latest->second, "before", shape, first - module_[latest->second].view_offset);
    return view(chain.carried, "before", shape, first);
  }

  // This rank's block of all ranks' gradients.
  void sum_block(const Begun& begun) {
    const Chain& chain = *begun.chain;
    const Summed& s = how(chain);
    const std::string name = module_[chain.carried].name;
    const int64_t first = sharding_.rank * s.part();
    const int64_t elements =
        std::clamp<int64_t>(module_[chain.carried].whole().elements() - first, 0, s.part());
    const int64_t shard = s.sharded ? 0 : s.cut.first();  // where it is in what is carried
    const int64_t place = shard + first - s.cut.first();
    const ValueId sum = ops::rank_sum(builder_, name + ".sum", begun.blocks,
                                      {.ranks = begun.ranks, .elements = elements},
                                      before(chain, {s.part()}, place));
    const bool last = last_program_ && is_last_chain(chain);
    const bool in_parts = s.copies > 1 && s.in_one_piece;  // which are put together each time
    if (!in_parts) carry(sum, chain.carried, place);
    if (s.copies > 1 && (in_parts || last)) {
      carry(ops::all_gather(builder_, name + ".gather", sum, over_copies(sharding_)), chain.carried,
            shard);
    } else if (s.gathered && last) {
      carry(ops::all_gather(builder_, name + ".gather", sum, over_all(sharding_)), chain.carried,
            0);
    }
  }

  // All of it, on every rank.
  void sum_all(const Begun& begun) {
    const Chain& chain = *begun.chain;
    const int64_t n = module_[chain.carried].type.shape.elements();
    const ValueId sum = ops::rank_sum(builder_, module_[chain.carried].name + ".sum", begun.blocks,
                                      {.ranks = begun.ranks, .elements = n, .first = begun.first},
                                      before(chain, {n}, 0));
    carry(sum, chain.carried, 0);
  }

  bool is_last_chain(const Chain& chain) const {
    const auto same = [&](const auto& entry) {
      return entry.first.first == chain.carried &&
             entry.second.writes.back().op > chain.writes.back().op;
    };
    return std::ranges::none_of(chains_, same);
  }

  ValueId view(ValueId id, std::string_view what, Shape shape, int64_t first) {
    const Value& value = module_[id];
    if (first == 0 && value.type.shape == shape) return id;
    return builder_.view(id, fmt::format("{}.{}", value.name, what), shape, first);
  }

  // As the value's next version, from that element on.
  void carry(ValueId made, ValueId carried, int64_t first) {
    builder_.last().micro_batch = place_->micro_batch;  // where it runs, whosever it is
    Value& value = module_[made];
    value.layer = module_[carried].layer;
    value.base = carried;
    value.view_offset = first;
    value.category = module_[carried].category;
    latest_[carried] = made;
  }

  Module& module_;
  const Sharding& sharding_;
  bool apart_;
  bool stages_;  // a program has several micro-batches, and no more than one whole gradient at once
  bool by_library_;
  const std::map<ValueId, Summed>& carried_;
  Builder builder_;
  std::vector<Op> ops_;
  bool last_program_;
  std::map<std::pair<ValueId, int32_t>, Chain> chains_;  // by value and micro-batch
  std::map<ValueId, ValueId> latest_;                    // what is carried by now
  std::vector<const Chain*> small_;                      // complete, to be exchanged together
  std::deque<Begun> begun_;                              // in the order of their exchanges
  std::optional<Place> place_;
  int64_t segment_ = 0;  // what is computed of one layer, and of one micro-batch, in a row
};

Summed how_to_sum(const Module& module, ValueId gradient, const Recipe& recipe) {
  const Sharding& sharding = recipe.sharding;
  const Value& parameter = module[module[gradient].parameter];
  // What is offloaded is evicted in one copy.
  const bool leaves =
      recipe.offload.space_of(OffloadItem::grads, module[gradient].layer) != Space::device;
  if (const Cut cut = cut_of(module, module[gradient].parameter, recipe); cut.on())
    return {.cut = cut,
            .sharded = sharding.level >= 2 || leaves,
            .copies = sharding.copies(),
            .in_one_piece = leaves};
  if (!sharding.on() || parameter.whole().elements() <= kSmall || leaves) return {};
  const int64_t block = round_up(ceil_div(parameter.whole().elements(), sharding.ranks), kAligned);
  return {.cut = {.ranks = sharding.ranks, .rank = sharding.rank, .block = block},
          .gathered = true};
}

}  // namespace

void sum_over_ranks(Module& module, const Recipe& recipe) {
  if (!recipe.sharding.on() && !recipe.sums_apart) return;
  std::map<ValueId, Summed> carried;
  for (size_t i = 0; i < module.values.size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    Value& value = module.values[i];
    if (value.category != Category::grads || !value.shared() || !value.parameter.valid()) continue;
    const Summed how = how_to_sum(module, id, recipe);
    if (how.sharded) {
      make_shard(value, how.cut);
    } else if (how.cut.on()) {
      pad(value, how.cut);
    }
    carried[id] = how;
  }
  carried[module.find_shared(shared_names::kLoss)] = {};
  for (size_t p = 0; p < module.programs.size(); ++p) {
    const ProgramRole role = module.programs[p].role;
    if (is_training(role) || (role == ProgramRole::evaluation && recipe.sharding.on()))
      ProgramSums(module, p, recipe, carried).run();
  }
}

}  // namespace snug
