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
  StackId last = 0;
  int64_t calls = 0;
};

}  // namespace

std::vector<LayerCall> layer_calls(const Snapshot& snapshot, const Replay& replay,
                                   const Steps& steps, const std::vector<StackFacts>& stacks,
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
      site.calls += a.stack == site.first && site.last != site.first ? 1 : 0;
      site.last = a.stack;
    }
  }
  // The line with most bytes calls the whole model, once in each pass; a layer's is called oftener.
  // Where a script has its layers in its own forward function, it is the layer's line.
  const auto largest = [&](int64_t fewest) {
    const std::pair<const uint32_t, Site>* most = nullptr;
    for (const auto& site : sites)
      if (site.second.calls >= fewest &&
          (most == nullptr || site.second.bytes > most->second.bytes))
        most = &site;
    return most;
  };
  const auto* model = largest(0);
  const auto* layer = model == nullptr ? nullptr : largest(2 * model->second.calls);
  if (layer == nullptr)
    layer = largest(static_cast<int64_t>(2 * std::max<size_t>(1, steps.all.size())));
  std::vector<LayerCall> calls;
  if (layer == nullptr) return calls;
  const StackId first = layer->second.first;
  bool inside = false;
  StackId before = 0;  // of what the layer made before
  for (size_t i = 0; i < owners.size(); ++i) {
    const Allocation& a = replay.allocations[i];
    const bool in_layer =
        a.from > 0 && std::ranges::find(sites_of[a.stack], layer->first) != sites_of[a.stack].end();
    const bool begins = in_layer && a.stack == first && (before != first || !inside);
    if (inside && (!in_layer || begins)) {
      calls.back().end = a.from;
      inside = false;
    }
    if (!in_layer) continue;
    if (begins || calls.empty()) calls.emplace_back();
    inside = true;
    before = a.stack;
    calls.back().made.push_back(i);
  }
  if (inside) calls.back().end = replay.last();
  return calls;
}

}  // namespace snug::pytorch
