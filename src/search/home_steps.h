// Where a variant's values live, changed in one thing: the steps by which the search climbs from a plan
// that fits to a faster one (search_moved.cpp).
//
//   for (const Step& step : large_steps(variant, OffloadItem::grads, began, room, left)) ...
//
// A large step brings as much of an item home as there is room for, or sends back what was brought, or
// brings values earlier or later; a small one moves some layers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "search/room.h"
#include "search/variant.h"

namespace snug {

// In place of what the changes say of the same option, or as one more change.
void set(std::vector<Change>& changes, const Change& change);

Variant with_homes(Variant variant, const Offload& offload);

// Layers by which a variant's values are brought before their use, at most and at least.
int32_t most_ahead(const Variant& variant);
int32_t least_ahead(const Variant& variant);
Variant brought_ahead(const Variant& variant, int32_t layers);

// Is what the host is to update still in its memory, or nothing left to it?
bool host_updates_something(const Variant& variant);

// The same step, smaller and smaller: the first that fits counts.
using Step = std::vector<Variant>;

// What steps change: one item's home, or, where it is none, how early values are brought.
using Changed = std::optional<OffloadItem>;
inline constexpr Changed kChanged[] = {std::nullopt, OffloadItem::params, OffloadItem::grads,
                                       OffloadItem::optimizer, OffloadItem::master};

// `began`: homes with nothing brought; `left`: what the plan leaves of each space.
std::vector<Step> large_steps(const Variant& variant, Changed what, const Offload& began,
                              const Room& room, const SpaceBytes& left);
std::vector<Step> small_steps(const Variant& variant, Changed what, const Offload& began);

}  // namespace snug
