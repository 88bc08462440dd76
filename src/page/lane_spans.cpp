#include "page/lane_spans.h"

#include <algorithm>
#include <cmath>

namespace snug {
namespace {

using Lane = std::vector<ShownSpan>;

// Neighbours become one while both together are shorter than that, and not far apart.
Lane merged(const Lane& lane, double shortest) {
  Lane out;
  for (const ShownSpan& span : lane) {
    const bool near = !out.empty() && span.end - out.back().begin < shortest;
    if (near) {
      out.back().end = std::max(out.back().end, span.end);
      out.back().ops += span.ops;
    } else {
      out.push_back(span);
    }
  }
  return out;
}

int64_t count(const std::vector<Lane>& lanes) {
  int64_t spans = 0;
  for (const Lane& lane : lanes) spans += std::ssize(lane);
  return spans;
}

Json lane_json(const Lane& lane, double busy, Texts& texts,
               const std::vector<std::string>& layers) {
  Json begin = Json::array(), length = begin, name = begin, kind = begin, layer = begin,
       ops = begin;
  for (const ShownSpan& span : lane) {
    begin.push_back(microseconds(span.begin));
    length.push_back(std::max<int64_t>(1, microseconds(span.end - span.begin)));
    name.push_back(texts.index(without_layer(layers, span.name, span.layer)));
    kind.push_back(texts.index(span.kind));
    layer.push_back(span.layer);
    ops.push_back(span.ops);
  }
  return {{"name", lane.front().lane},
          {"busy_us", microseconds(busy)},
          {"begin", begin},
          {"length", length},
          {"text", name},
          {"kind", kind},
          {"layer", layer},
          {"ops", ops}};
}

}  // namespace

Json lanes_json(std::string_view origin, std::vector<ShownSpan> spans, Texts& texts,
                const std::vector<std::string>& layers, int64_t most) {
  double zero = spans.empty() ? 0 : spans.front().begin, end = zero;
  for (const ShownSpan& span : spans) {
    zero = std::min(zero, span.begin);
    end = std::max(end, span.end);
  }
  std::vector<Lane> lanes;
  std::vector<double> busy;
  for (ShownSpan& span : spans) {
    auto lane = std::ranges::find(lanes, span.lane, [](const Lane& l) { return l.front().lane; });
    if (lane == lanes.end()) {
      lane = lanes.insert(lane, Lane{});
      busy.push_back(0);
    }
    busy[static_cast<size_t>(lane - lanes.begin())] += span.end - span.begin;
    span.begin -= zero;
    span.end -= zero;
    lane->push_back(std::move(span));
  }
  for (Lane& lane : lanes) std::ranges::stable_sort(lane, {}, &ShownSpan::begin);
  const int64_t all = count(lanes);
  double shortest = std::max(1e-9, (end - zero) / static_cast<double>(most));
  for (; count(lanes) > most; shortest *= 2)
    for (Lane& lane : lanes) lane = merged(lane, shortest);
  Json out = Json::array();
  for (size_t i = 0; i < lanes.size(); ++i)
    out.push_back(lane_json(lanes[i], busy[i], texts, layers));
  return {{"origin", origin},
          {"spans", all},
          {"shown", count(lanes)},
          {"end_us", microseconds(end - zero)},
          {"lanes", out}};
}

}  // namespace snug
