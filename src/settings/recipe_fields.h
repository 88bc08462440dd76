// The fields of a Recipe, each named once with what depends on it: keys of caches are copies of some of them. A field
// that is added to Recipe and not here does not compile.
//
//   Recipe key;
//   copy_fields(recipe, key, {Use::types, Use::update});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>

#include "settings/recipe.h"

namespace snug {

// What a field decides: values, ops, or their place.
enum class Use : uint8_t {
  types,       // of values, and which of them are there
  places,      // where values are, and what runs there
  layers,      // what a layer keeps, and whether it updates
  micro,       // how many micro-batches there are
  order,       // in which programs ops run
  update,      // what an update reads and writes
  recompute,   // chosen by the search, or pinned
  loss_scale,  // ops of a dynamic one
  mesh,        // of the job: a search plans one mesh at a time
  none         // no byte and no second: numbers, and which programs are made at all
};

template <typename R>
auto fields_of(R& recipe) {
  auto& [accum, micro_group, mesh, pp_schedule, sharding, sums_apart, recompute, compress, offload,
         fused_recompute, adapters, base, precision, master, grad_dtype, loss_scale, optimizer,
         state_dtype, update_in_backward, fold_update, host_update, step_only, beta1, beta2, eps,
         momentum, weight_decay, clip, backend] = recipe;
  return std::tie(accum, micro_group, mesh, pp_schedule, sharding, sums_apart, recompute, compress,
                  offload, fused_recompute, adapters, base, precision, master, grad_dtype,
                  loss_scale, optimizer, state_dtype, update_in_backward, fold_update, host_update,
                  step_only, beta1, beta2, eps, momentum, weight_decay, clip, backend);
}

// In the same order.
inline constexpr Use kUses[] = {
    Use::micro,  // accum
    Use::order,  // micro_group
    Use::mesh,   // mesh
    Use::mesh,   // pp_schedule
    Use::types,  // sharding
    Use::types,  // sums_apart
    Use::recompute,
    Use::layers,  // compress
    Use::places,  // offload
    Use::types,   // fused_recompute
    Use::types,   // adapters
    Use::types,   // base
    Use::types,   // precision
    Use::update,  // master
    Use::types,   // grad_dtype
    Use::loss_scale,
    Use::update,  // optimizer
    Use::update,  // state_dtype
    Use::layers,  // update_in_backward
    Use::order,   // fold_update
    Use::places,  // host_update
    Use::none,    // step_only
    Use::none,    // beta1
    Use::none,    // beta2
    Use::none,    // eps
    Use::none,    // momentum
    Use::none,    // weight_decay
    Use::none,    // clip
    Use::types,   // backend
};
static_assert(std::size(kUses) == std::tuple_size_v<decltype(fields_of(std::declval<Recipe&>()))>);

inline void copy_fields(const Recipe& from, Recipe& to, std::initializer_list<Use> uses) {
  uint32_t wanted = 0;
  for (const Use use : uses) wanted |= 1U << static_cast<uint32_t>(use);
  const auto source = fields_of(from);
  auto target = fields_of(to);
  [&]<size_t... I>(std::index_sequence<I...>) {
    ((((wanted >> static_cast<uint32_t>(kUses[I])) & 1U) != 0
          ? void(std::get<I>(target) = std::get<I>(source))
          : void()),
     ...);
  }
  (std::make_index_sequence<std::size(kUses)>());
}

}  // namespace snug
