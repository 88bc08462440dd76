// Which forward values to keep for the backward pass: what `--recompute` says, as data for the
// pass.
//
//   RecomputePolicy p = parse_recompute("every:4");
//   recompute(module, "micro_first", values_to_keep(module, "micro_first", p));
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace snug {

// Layers that are recomputed together: [first, last]. What enters them is always kept; of what they
// make, all is dropped, or what backward does not read and what `drop` names, each name without the
// layer's prefix. An op's name drops all that it makes but the output from which it can be
// recomputed: that one has to be named itself ("mlp.norm" drops y and the statistics, "mlp.norm.h"
// the sum).
struct Segment {
  int32_t first = 0, last = 0;
  std::vector<std::string> drop = {};  // empty: everything
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct RecomputePolicy {
  enum class Kind : uint8_t {
    none,
    full,
    every,
    sqrt,
    ratio,
    attention,
    list,
    automatic,  // to be chosen by plan/search
    chosen      // what it chose
  } kind = Kind::none;
  int64_t every = 1;            // every:N
  double ratio = 1;             // ratio:R
  std::vector<Segment> list;    // list:0,3,5-7: ranges of layers, each layer a segment of its own
  int64_t bytes = 0;            // auto:BYTES: the arena to stay within
  std::vector<Segment> chosen;  // in the order of layers; a layer in none of them keeps all

  friend bool operator==(const RecomputePolicy&, const RecomputePolicy&) = default;
};

// none | full | every:N | sqrt | ratio:R | attention | list:0,3,5-7 | layers:0-8=attn.norm,9=full |
// auto:BYTES. Throws a usage error.
RecomputePolicy parse_recompute(std::string_view text);

// As the user writes it; a chosen one in words: "layers 0-17 full; 18-23 drop attn.norm, mlp.act".
std::string text(const RecomputePolicy& policy);

// The same so that parse_recompute reads it back: "layers:0-17=full,18-23=attn.norm+mlp.act".
std::string option_text(const RecomputePolicy& policy);

// --- recompute_layers.cpp: what is behind "layers:" ----------------------------------------------

std::string layers_text(std::span<const Segment> segments);
// `whole` is what the user wrote, for the error.
std::vector<Segment> parse_layers(std::string_view text, std::string_view whole);
// Throws a usage error where a segment drops what none of its layers makes.
void require_names(const Program& program, const Module& module, std::span<const Segment> segments);

// The segments that a policy makes of L layers. Throws a usage error when it names a layer that is
// not there.
std::vector<Segment> segments_of(const RecomputePolicy& policy, int32_t layers);

// By value id: is it kept from forward to backward?
std::vector<bool> values_to_keep(const Module& module, std::string_view program,
                                 const RecomputePolicy& policy);

}  // namespace snug
