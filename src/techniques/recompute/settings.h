// --recompute: which forward values are kept for the backward pass (activation checkpointing), as data for
// the pass.
//
//   const RecomputePolicy p{.kind = RecomputePolicy::Kind::every, .every = 4};   // "every:4"
//   recompute(module, "micro_first", values_to_keep(module, "micro_first", p));   // recompute.h
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
    automatic,  // to be chosen by the search
    chosen      // what it chose
  } kind = Kind::none;
  int64_t every = 1;            // every:N
  double ratio = 1;             // ratio:R
  std::vector<Segment> list;    // list:0,3,5-7: ranges of layers, each layer a segment of its own
  int64_t bytes = 0;            // auto:BYTES: the arena to stay within
  std::vector<Segment> chosen;  // in the order of layers; a layer in none of them keeps all

  friend bool operator==(const RecomputePolicy&, const RecomputePolicy&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // none | full | every:N | sqrt | ratio:R | attention | list:0,3,5-7 | layers:0-8=attn.norm,9=full |
  // auto:BYTES
  static RecomputePolicy parse(std::string_view text, std::string_view option);
};
// As it is read back: "layers:0-17=full,18-23=attn.norm+mlp.act".
std::string text(const RecomputePolicy& policy);
// For people: "layers 0-17 full; 18-23 drop attn.norm, mlp.act".
std::string in_words(const RecomputePolicy& policy);

// --- layers_text.cpp: what follows "layers:" ------------------------------------------------------

std::string layers_text(std::span<const Segment> segments);
// `whole` is what the user wrote, for the error.
std::vector<Segment> parse_layers(std::string_view text, std::string_view whole);

// The segments that a policy makes of L layers. Throws a usage error when it names a layer that is
// not there.
std::vector<Segment> segments_of(const RecomputePolicy& policy, int32_t layers);

}  // namespace snug
