// `--recompute layers:...`: the text form of a policy that treats layers differently, as the search
// chooses it. "0-8=attn.norm+mlp.act,9=full,10-13=every:2" drops two things in each of the first
// nine layers, everything in layer 9, and keeps of 10 to 13 what enters each pair.
#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "settings/layer_range.h"
#include "techniques/recompute/settings.h"

namespace snug {
namespace {

constexpr std::string_view kEvery = "every:";

int32_t length_of(const Segment& s) { return s.last - s.first + 1; }

bool alike(const Segment& a, const Segment& b) {
  return a.drop == b.drop && length_of(a) == length_of(b) && a.last + 1 == b.first;
}

std::string how(const Segment& s) {
  std::string drop = s.drop.empty() ? "full" : join(s.drop, "+");
  if (length_of(s) == 1) return drop;
  return fmt::format("{}{}{}", kEvery, length_of(s), s.drop.empty() ? "" : "=" + drop);
}

// One "0-8=attn.norm+mlp.act" as its segments.
void add_group(const std::string& group, std::string_view whole, std::vector<Segment>& out) {
  const auto wrong = [&](std::string_view why) {
    return usage_error("--recompute '{}': '{}' {}", whole, group, why)
        .hint("e.g. layers:0-8=attn.norm+mlp.act,9=full,10-13=every:2");
  };
  std::vector<std::string> parts = split(group, '=');
  const auto range = read_layer_range(parts.front());
  if (parts.size() < 2 || !range) throw wrong("is not LAYER=WHAT or FIRST-LAST=WHAT");
  auto [first, last] = *range;
  if (!out.empty() && first <= out.back().last) throw wrong("comes after a later layer");
  int32_t length = 1;
  std::string what = parts[1];
  if (what.starts_with(kEvery)) {
    if (!read_number(std::string_view(what).substr(kEvery.size()), length) || length < 1 ||
        parts.size() > 3)
      throw wrong("is not every:LAYERS");
    what = parts.size() == 3 ? parts[2] : "full";
  } else if (parts.size() > 2) {
    throw wrong("says two things");
  }
  std::vector<std::string> drop;
  if (what != "full") drop = split(what, '+');
  if (std::ranges::any_of(drop, [](const std::string& name) { return name.empty(); }))
    throw wrong("drops something without a name");
  for (; first <= last; first += length)
    out.push_back({first, std::min(first + length - 1, last), drop});
}

}  // namespace

std::string layers_text(std::span<const Segment> segments) {
  std::vector<std::string> groups;
  for (size_t i = 0, next = 0; i < segments.size(); i = next) {
    for (next = i + 1; next < segments.size() && alike(segments[next - 1], segments[next]);) ++next;
    const int32_t first = segments[i].first;
    const int32_t last = segments[next - 1].last;
    groups.push_back(
        (first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last)) + "=" +
        how(segments[i]));
  }
  return join(groups, ",");
}

std::vector<Segment> parse_layers(std::string_view text, std::string_view whole) {
  std::vector<Segment> out;
  for (const std::string& group : split(text, ',')) add_group(group, whole, out);
  return out;
}

}  // namespace snug
