#include "pytorch/layers.h"

#include <algorithm>
#include <map>

namespace snug::pytorch {
namespace {

// A line in a forward function that is not PyTorch's own: where a layer may be called.
bool is_call_site(const Frame& f) {
  return f.name == "forward" && f.file.ends_with(".py") &&
         f.file.find("/torch/") == std::string::npos;
}

struct Site {
  int64_t bytes = 0;
  StackId first = 0;  // of what is made there first: a new call begins with it
  int64_t calls = 0;
};

}  // namespace

std::vector<LayerCall> layer_calls(const Snapshot& snapshot, const Replay& replay,
                                   const std::vector<StackFacts>& stacks,
                                   const std::vector<Owner>& owners) {
  std::vector<std::vector<uint32_t>> sites_of(snapshot.stacks.size());
  for (size_t i = 0; i < sites_of.size(); ++i) {
    if (stacks[i].phase != Phase::forward) continue;
    for (const uint32_t frame : snapshot.stacks[i])
      if (is_call_site(snapshot.frames[frame])) sites_of[i].push_back(frame);
  }
  std::map<uint32_t, Site> sites;
  for (size_t i = 0; i < owners.size(); ++i) {
    const Allocation& a = replay.allocations[i];
    if (a.from == 0) continue;
    for (const uint32_t frame : sites_of[a.stack]) {
      Site& site = sites[frame];
      if (site.first == 0) site.first = a.stack;
      site.bytes += a.bytes;
      site.calls += a.stack == site.first ? 1 : 0;
    }
  }
  // The steps call every site; a layer is called oftener than the model around it.
  int64_t fewest = 0;
  for (const auto& [frame, site] : sites)
    fewest = fewest == 0 ? site.calls : std::min(fewest, site.calls);
  const uint32_t* chosen = nullptr;
  int64_t most = 0;
  for (const auto& [frame, site] : sites) {
    if (site.calls < 2 * fewest || site.bytes <= most) continue;
    most = site.bytes;
    chosen = &frame;
  }
  std::vector<LayerCall> calls;
  if (chosen == nullptr) return calls;
  const StackId first = sites[*chosen].first;
  bool inside = false;
  for (size_t i = 0; i < owners.size(); ++i) {
    const Allocation& a = replay.allocations[i];
    const bool in_layer =
        a.from > 0 && std::ranges::find(sites_of[a.stack], *chosen) != sites_of[a.stack].end();
    if (inside && (!in_layer || a.stack == first)) {
      calls.back().end = a.from;
      inside = false;
    }
    if (!in_layer) continue;
    if (a.stack == first || calls.empty()) calls.emplace_back();
    inside = true;
    calls.back().made.push_back(i);
  }
  if (inside) calls.back().end = replay.last();
  return calls;
}

}  // namespace snug::pytorch
