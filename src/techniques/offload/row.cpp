// Its rows of the technique table, and what the search may choose of it.
#include "techniques/rows.h"

namespace snug {
namespace {

// A CPU's host memory is its own.
bool on_gpu(const Settings& s, const DeviceSpec&) { return s.recipe.backend == Backend::cuda; }
// Layer by layer, all micro-batches: a variant with one of them repeats another.
bool in_micro_batches(const Settings& s, const DeviceSpec& device) {
  return on_gpu(s, device) && s.recipe.micro_group == 1;
}
bool keeps_on_gpu(const Settings& s, bool) {
  return s.recipe.backend == Backend::cuda && s.recipe.offload.none();
}

constexpr std::string_view kTiedOrder = "nothing, but the order of a tied embedding's gradients";

}  // namespace

std::vector<Technique> offload_rows() {
  return {
      {.name = "offload state",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = on_gpu,
       .helps = keeps_on_gpu},
      {.name = "offload state and gradients",
       .dimension = "offload",
       .change = {{&Options::offload,
                   on_host({OffloadItem::optimizer, OffloadItem::master, OffloadItem::grads})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = on_gpu,
       .helps = keeps_on_gpu},
      {.name = "offload all but activations",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master,
                                               OffloadItem::grads, OffloadItem::params})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = on_gpu},
      {.name = "offload activations",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::activations})}},
       .numbers = kNothing,
       .searched = on_gpu,
       .helps = keeps_on_gpu},
      {.name = "offload state and activations",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master,
                                               OffloadItem::activations})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = on_gpu},
      {.name = "offload state, by layer",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master})},
                  {&Options::micro_order, MicroOrder{MicroOrder::Kind::vertical}}},
       .touches = Touches::state,
       .numbers = kTiedOrder,
       .searched = in_micro_batches},
      {.name = "offload all but parameters, by layer",
       .dimension = "offload",
       .change = {{&Options::offload, on_host({OffloadItem::optimizer, OffloadItem::master,
                                               OffloadItem::grads, OffloadItem::activations})},
                  {&Options::micro_order, MicroOrder{MicroOrder::Kind::vertical}}},
       .touches = Touches::state,
       .numbers = kTiedOrder,
       .searched = in_micro_batches},
      {.name = "offload all, by layer",
       .dimension = "offload",
       .change = {{&Options::offload,
                   on_host({OffloadItem::optimizer, OffloadItem::master, OffloadItem::grads,
                            OffloadItem::params, OffloadItem::activations})},
                  {&Options::micro_order, MicroOrder{MicroOrder::Kind::vertical}}},
       .touches = Touches::state,
       .numbers = kTiedOrder,
       .searched = in_micro_batches},
      {.name = "offload all",
       .dimension = "offload",
       .change = {{&Options::offload,
                   on_host({OffloadItem::optimizer, OffloadItem::master, OffloadItem::grads,
                            OffloadItem::params, OffloadItem::activations})}},
       .touches = Touches::state,
       .numbers = kNothing,
       .smallest = true,
       .searched = on_gpu,
       .helps = keeps_on_gpu},
  };
}

DimensionRow offload_dimension() {
  return {.name = "offload", .options = {&option_of(&Options::offload)}, .moves = true};
}

}  // namespace snug
