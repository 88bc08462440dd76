#include "cost/measured_times.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/median.h"

namespace snug {
namespace {

constexpr size_t kNear = 8;      // samples that an efficiency is interpolated from
constexpr double kRidge = 0.01;  // of their spread: keeps the slope where they lie on a line
constexpr double kSame = 1e-12;  // squared distance at which a point is a sample
constexpr size_t kAlike = 9;     // samples that speak for a kind that was never measured

// Two sizes alike differ less than two shapes: operations for each byte count more.
constexpr double kShape = 0.7;
// And attention over heads of another width, or with dropout, is another kernel.
constexpr double kApart = 4;
constexpr size_t kEnough = 2;  // samples of the same kernel: with these no other one counts

double log_of(double work) { return std::log(std::max(work, 1.0)); }

bool same_server(uint32_t a, uint32_t b) { return ((a ^ b) & kServers) == 0; }

// The samples of the same work as one, with their mean time: what adds up stays so.
std::vector<OpSample> merged(std::vector<OpSample> samples) {
  const auto work = [](const OpSample& s) -> const OpWork& { return s; };
  std::ranges::sort(samples, {}, work);
  std::vector<OpSample> out;
  for (size_t i = 0; i < samples.size();) {
    size_t end = i;
    double seconds = 0;
    for (; end < samples.size() && work(samples[end]) == work(samples[i]); ++end)
      seconds += samples[end].seconds;
    out.push_back(samples[i]);
    out.back().seconds = seconds / static_cast<double>(end - i);
    i = end;
  }
  return out;
}

}  // namespace

DeviceSpec with_measured_rates(const DeviceSpec& spec, const Calibration& measured) {
  double fp32 = 0, tf32 = 0, bf16 = 0, fp16 = 0;
  for (const OpSample& s : measured.samples) {
    if (!roof_of(spec, s).by_arithmetic() || (s.has & kPlainTiles) != 0) continue;
    double& best = s.dtype == Dtype::bf16  ? bf16
                   : s.dtype == Dtype::f16 ? fp16
                   : s.tf32                ? tf32
                                           : fp32;
    best = std::max(best, s.flops / s.seconds);
  }
  DeviceSpec rates = spec;
  const auto take = [](double best, double& peak) {
    if (best > 0) peak = best;
  };
  take(fp32, rates.fp32_flops);
  take(tf32, rates.tf32_flops);
  take(bf16, rates.bf16_flops);
  take(fp16, rates.fp16_flops);
  take(measured.copy_bytes_per_s, rates.bytes_per_s);
  return rates;
}

MeasuredTimes::MeasuredTimes(const Calibration& measured, const DeviceSpec& spec, double launch)
    : rates_(with_measured_rates(spec, measured)), launch_(launch) {
  std::map<std::tuple<std::string, Dtype, bool>, std::vector<OpSample>> groups;
  for (const OpSample& sample : measured.samples) {
    groups[{sample.kind, sample.dtype, sample.tf32}].push_back(sample);
    const Roof roof = roof_of(rates_, sample);
    if (roof.seconds() > 0 && (sample.has & kPlainTiles) == 0)
      pools_[roof.by_arithmetic() ? 1 : 0].emplace_back(std::log(roof.seconds()),
                                                        roof.seconds() / sample.seconds);
  }
  for (const auto& [key, samples] : groups) {
    const auto& [kind, dtype, tf32] = key;
    Surface surface = surface_of(merged(samples), launch);
    surface.dtype = dtype;
    surface.tf32 = tf32;
    kinds_[kind].push_back(std::move(surface));
  }
}

MeasuredTimes::Point MeasuredTimes::place_of(const OpWork& work) {
  const double f = log_of(work.flops), b = log_of(work.bytes);
  return {.x = (f + b) / 2,
          .y = kShape * (f - b),
          .apart = work.exps > 0 ? kApart * (f - log_of(work.exps)) : 0,
          .has = work.has};
}

// A launch is taken off every time, so that small ops need no efficiency of their own.
MeasuredTimes::Surface MeasuredTimes::surface_of(const std::vector<OpSample>& samples,
                                                 double launch) const {
  Surface surface;
  surface.launch = launch;
  for (const OpSample& s : samples) surface.launch = std::min(surface.launch, 0.9 * s.seconds);
  for (const OpSample& s : samples) {
    const double roof = roof_of(rates_, s).seconds();
    if (roof <= 0) continue;
    surface.points.push_back(place_of(s));
    surface.points.back().z = std::log(roof / (s.seconds - surface.launch));
  }
  return surface;
}

// A plane through the nearest points, each by the inverse fourth power of its distance; never
// beyond what they reached themselves. (Of those tried, the best on saturating rates and on
// matmuls.)
double MeasuredTimes::Surface::at(const Point& q) const {
  std::vector<std::pair<double, const Point*>> near;
  near.reserve(points.size());
  const auto square = [](double d) { return d * d; };
  const auto same = [&](const Point& p) { return p.has == q.has; };
  const bool enough = std::cmp_greater_equal(std::ranges::count_if(points, same), kEnough);
  for (const Point& p : points) {
    if (!same_server(p.has, q.has) || (enough && !same(p))) continue;
    near.emplace_back(square(p.x - q.x) + square(p.y - q.y) + square(p.apart - q.apart) +
                          kApart * kApart * std::popcount(p.has ^ q.has),
                      &p);
  }
  const size_t count = std::min(kNear, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end());
  near.resize(count);
  if (near.front().first < kSame) return near.front().second->z;

  double sum = 0;
  Point mean;
  for (auto& [weight, p] : near) {
    weight = 1 / (weight * weight);
    sum += weight;
    mean.x += weight * p->x;
    mean.y += weight * p->y;
    mean.z += weight * p->z;
  }
  mean = {.x = mean.x / sum, .y = mean.y / sum, .z = mean.z / sum};

  double xx = 0, xy = 0, yy = 0, xz = 0, yz = 0;
  double least = near.front().second->z, most = least;
  for (const auto& [weight, p] : near) {
    const double dx = p->x - mean.x, dy = p->y - mean.y, dz = p->z - mean.z;
    xx += weight * dx * dx;
    xy += weight * dx * dy;
    yy += weight * dy * dy;
    xz += weight * dx * dz;
    yz += weight * dy * dz;
    least = std::min(least, p->z);
    most = std::max(most, p->z);
  }
  const double ridge = kRidge * (xx + yy);
  xx += ridge;
  yy += ridge;
  const double det = xx * yy - xy * xy;
  if (det <= 0) return mean.z;  // one point
  const double slope_x = (yy * xz - xy * yz) / det;
  const double slope_y = (xx * yz - xy * xz) / det;
  return std::clamp(mean.z + slope_x * (q.x - mean.x) + slope_y * (q.y - mean.y), least, most);
}

// One with samples of the same server; of these the same dtype, else one of its size, else the one
// with most samples.
const MeasuredTimes::Surface* MeasuredTimes::nearest_surface(const OpWork& work) const {
  const auto found = kinds_.find(work.kind);
  if (found == kinds_.end()) return nullptr;
  const auto of_server = [&](const Surface& s) {
    return std::ranges::any_of(s.points,
                               [&](const Point& p) { return same_server(p.has, work.has); });
  };
  const auto likeness = [&](const Surface& s) {
    return std::tuple(of_server(s), !s.points.empty(), s.dtype == work.dtype && s.tf32 == work.tf32,
                      s.dtype == work.dtype, size_of(s.dtype) == size_of(work.dtype),
                      s.points.size());
  };
  const Surface& nearest = *std::ranges::max_element(found->second, {}, likeness);
  const bool other = !nearest.points.empty() && !of_server(nearest);
  return other ? nullptr : &nearest;
}

std::optional<double> MeasuredTimes::usual_efficiency(const Roof& roof) const {
  auto pool = pools_[roof.by_arithmetic() ? 1 : 0];
  if (pool.empty()) return std::nullopt;
  const double size = std::log(roof.seconds());
  const size_t count = std::min(kAlike, pool.size());
  std::ranges::partial_sort(pool, pool.begin() + static_cast<std::ptrdiff_t>(count), {},
                            [&](const auto& p) { return std::abs(p.first - size); });
  std::vector<double> efficiencies;
  for (size_t i = 0; i < count; ++i) efficiencies.push_back(pool[i].second);
  return median(std::move(efficiencies));
}

std::optional<double> MeasuredTimes::seconds(const OpWork& work) const {
  const double roof = roof_of(rates_, work).seconds();
  const Surface* surface = nearest_surface(work);
  if (roof <= 0) return surface != nullptr ? surface->launch : launch_;
  if (surface != nullptr && !surface->points.empty())
    return surface->launch + roof / std::exp(surface->at(place_of(work)));
  if ((work.has & kServers) != 0) return std::nullopt;
  if (const auto usual = usual_efficiency(roof_of(rates_, work)))
    return std::max(launch_, roof / *usual);
  return std::nullopt;
}

}  // namespace snug
