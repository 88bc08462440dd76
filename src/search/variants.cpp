#include "search/variants.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "recipe/allow.h"
#include "recipe/with_flags.h"

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
  const int64_t sequences = run.options.global_batch;
  Dimension d{"micro-batch", {{""}}};
  for (const int64_t batch : micro_batches(sequences, run.asked.global_batch > 0)) {
    if (batch != run.build.batch)
      d.alternatives.push_back(
          {fmt::format("--batch {} --accum {}", batch, ceil_div(sequences, batch)),
           Effect::rounding});
  }
  return d;
}

Dimension loss_dimension(const Resolved& run) {
  const int64_t chunk = run.build.loss_chunk;
  return {"loss",
          {{""},
           {"--loss whole", Effect::rounding},
           {fmt::format("--loss chunked:{}", chunk * 4), Effect::rounding},
           {fmt::format("--loss chunked:{}", chunk / 4), Effect::rounding}}};
}

// Not Lion and not SGD: they want another learning rate, which nobody here can choose.
Dimension optimizer_dimension() {
  return {"optimizer",
          {{""},
           {"--state-dtype bf16", Effect::learning},
           {"--optimizer adamw8bit", Effect::learning},
           {"--optimizer adam-mini", Effect::learning}}};
}

Dimension precision_dimension(const Resolved& run) {
  Dimension d{"precision", {{""}}};
  const DeviceSpec& spec = run.cost_model.spec();
  if (run.recipe.backend == Backend::cuda && spec.tf32_flops > 0 && !run.math.tf32)
    d.alternatives.push_back({"--tf32", Effect::rounding});
  if (spec.bf16_flops > 0) {
    d.alternatives.push_back({"--precision bf16", Effect::learning});
    d.alternatives.push_back({"--precision bf16 --master none", Effect::learning});
  }
  return d;
}

std::string name_of(const BuildOptions& build) {
  return fmt::format("{} {} {} {}", build.batch, build.seq, static_cast<int>(build.attention),
                     build.attention_chunk);
}

Stack stack_of(const std::shared_ptr<const Model>& model, const BuildOptions& build) {
  return {.layers = static_cast<int32_t>(model->config().L),
          .forward = [model, build](int32_t n) { return model->with_layers(n).forward(build); }};
}

Variant variant(const std::shared_ptr<const Model>& model, const BuildOptions& build,
                const Recipe& recipe, const CostModel& cost_model) {
  return {.stack = stack_of(model, build),
          .layers_key = name_of(build),
          .ends_key = fmt::format("{} {} {} {}", build.batch, build.seq, build.chunked_loss,
                                  build.loss_chunk),
          .recipe = recipe,
          .cost_model = cost_model};
}

// Counts through all combinations of alternatives, the last dimension fastest.
bool advance(std::vector<int>& picks, const std::vector<Dimension>& dimensions) {
  for (size_t d = dimensions.size(); d-- > 0;) {
    if (++picks[d] < static_cast<int>(dimensions[d].alternatives.size())) return true;
    picks[d] = 0;
  }
  return false;
}

// Chunks of all tokens are no chunks.
bool repeats_another(const BuildOptions& build) {
  return build.chunked_loss && build.loss_chunk >= build.batch * build.seq;
}

}  // namespace

std::vector<Dimension> open_dimensions(const Resolved& run) {
  std::vector<Dimension> open;
  if (!run.budget) return open;
  const Options& o = run.asked;
  const bool transformer = run.model.config().family != "mlp";
  if (o.accum == 0) open.push_back(split_dimension(run));
  // On a GPU the other kinds are slower in any case and no smaller: ours, not cuDNN's.
  if (transformer && o.attention == "auto" && run.recipe.backend == Backend::cpu) {
    open.push_back({"attention",
                    {{""},
                     {"--attention standard", Effect::rounding},
                     {"--attention chunked", Effect::rounding}}});
  }
  if (transformer && o.loss == "auto") open.push_back(loss_dimension(run));
  if (allows(o, "precision") && precision_is_default(o)) open.push_back(precision_dimension(run));
  if (allows(o, "optimizer") && optimizer_is_default(o)) open.push_back(optimizer_dimension());
  if (allows(o, "compress") && compress_is_default(o))
    open.push_back({"compress", {{""}, {"--compress int8", Effect::learning}}});
  return open;
}

Variant variant_of(const Model& model, const BuildOptions& build, const Recipe& recipe,
                   const CostModel& cost_model) {
  return variant(std::make_shared<const Model>(model), build, recipe, cost_model);
}

Variant variant_of(const Resolved& run) {
  return variant_of(run.model, run.build, run.recipe, run.cost_model);
}

std::vector<Variant> variants_of(const Resolved& run) {
  const std::vector<Dimension> dimensions = open_dimensions(run);
  const auto model = std::make_shared<const Model>(run.model);
  std::optional<CostModel> tf32;
  std::vector<Variant> variants;
  std::vector<int> picks(dimensions.size());
  do {
    std::vector<std::string> flags;
    Effect effect = Effect::exact;
    for (size_t d = 0; d < picks.size(); ++d) {
      const Alternative& a = dimensions[d].alternatives[static_cast<size_t>(picks[d])];
      if (!a.flags.empty()) flags.push_back(a.flags);
      effect = std::max(effect, a.effect);
    }
    const std::string name = join(flags, " ");
    Options o = with_flags(run.asked, name);
    o.device = run.options.device;
    try {
      const BuildOptions build = resolve_build(o, run.model);
      if (!flags.empty() && o.loss != run.options.loss && repeats_another(build)) continue;
      const Recipe recipe = resolve_recipe(o, run.budget);
      if (o.tf32 && !run.math.tf32 && !tf32)
        tf32 = resolve(with_flags(run.asked, "--tf32")).cost_model;
      const bool other_cost_model = o.tf32 && !run.math.tf32;
      variants.push_back(variant(model, build, recipe, other_cost_model ? *tf32 : run.cost_model));
      variants.back().name = name;
      variants.back().effect = effect;
      variants.back().picks = picks;
      if (other_cost_model) {
        variants.back().layers_key += " tf32";
        variants.back().ends_key += " tf32";
      }
    } catch (const Error&) {  // what does not go together is no choice
    }
  } while (advance(picks, dimensions));
  return variants;
}

}  // namespace snug
