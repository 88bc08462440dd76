#include "search/variants.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "cost/device_costs.h"
#include "recipe/open_dimensions.h"

namespace snug {
namespace {

// So many micro-batches are tried: of those that there are, the ones nearest to halving.
constexpr size_t kSplits = 12;

// The micro-batches that make up a step: divisors of it, and, where the last may be short, what a
// step in so many pieces takes.
std::vector<int64_t> micro_batches(int64_t sequences, bool last_may_be_short) {
  std::vector<int64_t> all;
  for (int64_t pieces = 1; pieces <= sequences; pieces *= 2) {
    int64_t batch = ceil_div(sequences, pieces);
    if (!last_may_be_short) {
      while (sequences % batch != 0) --batch;
    }
    if (all.empty() || all.back() != batch) all.push_back(batch);
  }
  if (all.size() > kSplits) all.resize(kSplits);
  if (all.back() != 1) all.push_back(1);
  return all;
}

Dimension split_dimension(const Resolved& run) {
  const int64_t sequences =
      ceil_div(run.options.global_batch, run.recipe.sharding.ranks);  // of a rank
  Dimension d{"micro-batch", {{}}, /*moves=*/false, /*with_moves=*/true};
  for (const int64_t batch : micro_batches(sequences, run.asked.global_batch > 0)) {
    if (batch == run.build.batch) continue;
    d.alternatives.push_back(
        {{{&Options::batch, batch}, {&Options::accum, ceil_div(sequences, batch)}},
         Effect::rounding});
  }
  return d;
}

// An offload that was asked for leaves the order of micro-batches open; a searched one sets it.
Dimension order_dimension(const Resolved& run) {
  Dimension d{"micro-order", {{}}, /*moves=*/false, /*with_moves=*/true};
  const Technique& by_layer = technique("offload state, by layer");
  if (!run.asked.micro_order && !run.recipe.offload.none() &&
      by_layer.searched(run, run.cost_model.spec()))
    d.alternatives.push_back(
        {{{&Options::micro_order, MicroOrder{MicroOrder::Kind::vertical}}}, by_layer.effect});
  return d;
}

// Chunks of other sizes are alternatives, too.
void add_chunks(Dimension& loss, int64_t chunk) {
  for (const int64_t size : {chunk * 4, chunk / 4})
    loss.alternatives.push_back(
        {{{&Options::loss, LossChoice{.chunk = size}}}, smallest_of(loss.name).effect});
}

// The state of a part of the layers, too.
void add_parts(Dimension& offload, int64_t layers) {
  constexpr int64_t kParts = 4;
  const Change& whole = technique("offload state").change;
  const Offload state = **whole.value_of(&Options::offload);
  for (int64_t part = 1; part < kParts && layers >= kParts; ++part) {
    Offload some = state;
    for (Offload::Rule& rule : some.rules)
      rule.layers = {{.first = 0, .last = static_cast<int32_t>(layers * part / kParts) - 1}};
    offload.alternatives.push_back({{{&Options::offload, some}}, Effect::exact});
  }
}

// The same with the host's cores updating what is in their memory.
void add_host_updates(Dimension& offload, const std::vector<Alternative>& on_gpu) {
  for (Alternative a : on_gpu) {
    if (!a.change.sets(&Options::offload)) continue;
    a.change += technique("update on the host").change;
    offload.alternatives.push_back(std::move(a));
  }
}

// The same with half of the state on disk, with more, with all of it, and with all but activations
// there, where they are offloaded anyway. What fits in host memory moves back there (search.h).
void add_on_disk(Dimension& offload, int64_t layers) {
  const auto add = [&](const Alternative& a, const Offload& disk) {
    Alternative there = a;
    there.change += Change{{&Options::offload, disk}};
    offload.alternatives.push_back(there);
  };
  const std::vector<Alternative> on_host = offload.alternatives;
  const std::vector<OffloadItem> farther[] = {
      {OffloadItem::optimizer, OffloadItem::master},
      {OffloadItem::optimizer, OffloadItem::master, OffloadItem::grads, OffloadItem::params}};
  for (const Alternative& a : on_host) {
    if (!a.change.sets(&Options::offload)) continue;
    const Offload host = **a.change.value_of(&Options::offload);
    for (const std::vector<OffloadItem>& items : farther) {
      Offload disk = host;
      if (!std::ranges::all_of(items, [&](OffloadItem item) { return host.moves(item); })) continue;
      for (Offload::Rule& rule : disk.rules) {
        if (std::ranges::find(items, rule.item) != items.end()) rule.place = Space::disk;
      }
      for (const int64_t quarters : {2, 3}) {
        if (&items != &farther[0] || layers < 4) break;
        Offload part = host;
        for (const Offload::Rule& rule : disk.rules) {
          if (rule.place != Space::disk) continue;
          part.rules.push_back(rule);
          part.rules.back().layers = {
              {.first = 0, .last = static_cast<int32_t>(layers * quarters / 4) - 1}};
        }
        add(a, part);
      }
      add(a, disk);
    }
  }
}

// The same with a copy of the state for each machine, where there are several and they are alike.
void add_copies(Dimension& zero, int64_t ranks, int64_t machine) {
  if (machine < 2 || ranks <= machine || ranks % machine != 0) return;
  const std::vector<Alternative> shared_by_all = zero.alternatives;
  for (const Alternative& a : shared_by_all) {
    Alternative copies = a;
    if (!a.change.sets(&Options::zero)) copies.change += Change{{&Options::zero, ZeroLevel::state}};
    copies.change +=
        Change{{&Options::shard, Shard{.kind = Shard::Kind::hybrid, .group = machine}}};
    zero.alternatives.push_back(std::move(copies));
  }
}

// Does it pin nothing that was asked for, except what the dimension itself settles?
bool leaves_what_was_asked(const Change& change, const DimensionRow& row, const Options& asked) {
  return std::ranges::all_of(change.settings(), [&](const OptionValue& o) {
    return std::ranges::find(row.options, o.option) != row.options.end() ||
           is_at_default(*o.option, asked);
  });
}

// Ranks of a machine share its cores, by how much nothing says.
bool host_update_is_open(const Resolved& run) {
  return !run.asked.host_update && run.options.ranks < 2;
}

Dimension dimension_of(const DimensionRow& row, const Resolved& run) {
  Dimension d{std::string(row.name), {{}}, row.moves, row.with_moves};
  for (const Technique& t : techniques()) {
    if (t.dimension == row.name && t.searched != nullptr &&
        t.searched(run, run.cost_model.spec()) && leaves_what_was_asked(t.change, row, run.asked))
      d.alternatives.push_back({t.change, t.effect});
  }
  if (row.name == "loss") add_chunks(d, run.build.loss_chunk);
  if (row.name == "zero" && d.alternatives.size() > 1)
    add_copies(d, run.options.ranks, run.cost_model.spec().wire.machine);
  if (row.moves && d.alternatives.size() > 1) {
    const std::vector<Alternative> on_host = d.alternatives;
    if (!run.options.offload_dir.empty() && run.host_budget) add_on_disk(d, run.model.config().L);
    add_parts(d, run.model.config().L);
    if (host_update_is_open(run)) add_host_updates(d, on_host);
  }
  return d;
}

Stack stack_of(const std::shared_ptr<const Model>& model, const BuildOptions& build) {
  return {.layers = static_cast<int32_t>(model->config().L),
          .forward = [model, build](int32_t n) { return model->with_layers(n).forward(build); }};
}

Variant variant(const std::shared_ptr<const Model>& model, const Settings& settings,
                const CostModel& cost_model) {
  return {.stack = stack_of(model, settings.build), .settings = settings, .cost_model = cost_model};
}

// Counts through all combinations of alternatives, the last dimension fastest.
bool advance(std::vector<int>& picks, const std::vector<Dimension>& dimensions) {
  for (size_t d = dimensions.size(); d-- > 0;) {
    if (++picks[d] < static_cast<int>(dimensions[d].alternatives.size())) return true;
    picks[d] = 0;
  }
  return false;
}

// The same where nothing moves to other memory; none where nothing does.
std::vector<int> without_moves(std::vector<int> picks, const std::vector<Dimension>& dimensions) {
  bool moves = false;
  for (size_t d = 0; d < picks.size(); ++d) {
    if (dimensions[d].moves) moves |= std::exchange(picks[d], 0) != 0;
  }
  return moves ? picks : std::vector<int>{};
}

// So many micro-batches go through a layer together, of all that there are: programs of more are
// long. 1: as they would anyway.
int64_t together_of(int64_t micro_batches) {
  constexpr int64_t kMostTogether = 8;
  int64_t together = std::min(micro_batches, kMostTogether);
  while (micro_batches % together != 0) --together;
  return together;
}

// All but a few dimensions are as asked there.
bool is_searched_with_moves(const std::vector<int>& picks,
                            const std::vector<Dimension>& dimensions) {
  for (size_t d = 0; d < picks.size(); ++d) {
    if (!dimensions[d].moves && !dimensions[d].with_moves && picks[d] != 0) return false;
  }
  return true;
}

bool is_vertical(const Options& o) {
  return o.micro_order && o.micro_order->kind == MicroOrder::Kind::vertical;
}

// Chunks of all tokens are no chunks; and where whole logits are the loss's scratch, they are no
// other than the one chunk that the default would make, which `build` keeps, too.
bool repeats_another(const BuildOptions& build) {
  return (build.chunked_loss || build.fused_loss) && build.loss_chunk >= build.batch * build.seq;
}

}  // namespace

std::vector<Dimension> open_dimensions(const Resolved& run) {
  std::vector<Dimension> open;
  if (!run.budget) return open;
  const bool has_sequences = run.model.config().transformer;
  if (run.asked.accum == 0) open.push_back(split_dimension(run));
  if (Dimension order = order_dimension(run); order.alternatives.size() > 1)
    open.push_back(std::move(order));
  for (const DimensionRow& row : dimensions()) {
    if (!is_open(row, run.asked) || (row.of_sequences && !has_sequences)) continue;
    Dimension d = dimension_of(row, run);
    if (d.alternatives.size() > 1) open.push_back(std::move(d));
  }
  return open;
}

Variant variant_of(const Model& model, const Settings& settings, const CostModel& cost_model) {
  return variant(std::make_shared<const Model>(model), settings, cost_model);
}

Variant variant_of(const Resolved& run) { return variant_of(run.model, run, run.cost_model); }

std::vector<Variant> variants_of(const Resolved& run) {
  const std::vector<Dimension> dimensions = open_dimensions(run);
  const auto model = std::make_shared<const Model>(run.model);
  std::optional<CostModel> other_math;  // the one alternative arithmetic: tf32
  std::vector<Variant> variants;
  std::vector<int> picks(dimensions.size());
  do {
    const std::vector<int> plain = without_moves(picks, dimensions);
    if (!plain.empty() && !is_searched_with_moves(picks, dimensions)) continue;
    std::vector<Change> changes;
    Effect effect = Effect::exact;
    Options o = run.asked;
    for (size_t d = 0; d < picks.size(); ++d) {
      const Alternative& a = dimensions[d].alternatives[static_cast<size_t>(picks[d])];
      if (a.change.empty()) continue;
      o = changed(std::move(o), a.change);
      effect = std::max(effect, a.effect);
      changes.push_back(a.change);
    }
    o.device = run.options.device;
    const auto settled = [&] {
      return unless_refused([&] { return settle(o, run.model, run.budget, run.here.rank); });
    };
    std::optional<Settings> settings = settled();
    if (settings && is_vertical(o) && !is_vertical(run.asked)) {
      const int64_t together = together_of(settings->recipe.accum);
      if (together == 1) continue;
      if (together < settings->recipe.accum) {
        const Change in_groups{{&Options::micro_order,
                                MicroOrder{.kind = MicroOrder::Kind::groups, .group = together}}};
        for (Change& change : changes)
          if (change.sets(&Options::micro_order)) change += in_groups;
        o = changed(std::move(o), in_groups);
        settings = settled();
      }
    }
    if (!settings) continue;  // what does not go together is no choice
    if (!changes.empty() && o.loss != run.options.loss && repeats_another(settings->build))
      continue;
    const bool as_asked = settings->math == run.math;
    if (!as_asked && !other_math) other_math = cost_model_for(o, settings->math, run.here);
    variants.push_back(variant(model, *settings, as_asked ? run.cost_model : *other_math));
    variants.back().changes = std::move(changes);
    variants.back().effect = effect;
    variants.back().picks = picks;
    variants.back().plain = plain;
    variants.back().moves_are_open = std::ranges::any_of(dimensions, &Dimension::moves);
    variants.back().ahead_is_open = run.asked.offload_ahead == 0;
    variants.back().host_update_is_open = host_update_is_open(run);
  } while (advance(picks, dimensions));
  return variants;
}

}  // namespace snug
