#include "cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "cost/measured_times.h"

namespace snug {
namespace {

// What large ops reach of a device's peaks, and what any of them takes in addition: its launch, and
// a device that is not yet or no longer full.
struct Class {
  double efficiency = 1;
  double extra_seconds = 0;
};
struct Classes {
  Class matmul, attention, traffic, odd_matmul, own_attention, plain_attention;
};
// An H200, bf16, in a step (docs/performance.md): matmuls 640 to 710 of 989 TFLOP/s; attention 260
// to 340 forward, 195 to 235 backward; streaming kernels 82 to 97 % of a copy, a copy 88 % of peak;
// matmuls over odd rows (kOdd) 105 to 166 TFLOP/s on tensor cores. Attention on kernels of our own:
// 83 to 108 TFLOP/s on tensor cores with dropout; 10 of fp32's 67 on plain tiles.
constexpr Classes kGpu{{0.69, 4e-6}, {0.24, 4e-6}, {0.8, 2e-6},
                       {0.13, 4e-6}, {0.1, 4e-6},  {0.15, 4e-6}};
constexpr Class kCpuAttention{0.4, 1e-6};
constexpr Classes kCpu{{0.65, 1e-6}, kCpuAttention, {0.8, 1e-6},
                       {0.65, 1e-6}, kCpuAttention, kCpuAttention};

// The cores of a GPU's host. Traffic is fitted to one run, whose step took 0.17 s longer than with
// 0.8 if all of that is the update's (H200; bench/results/2026-11-17-h200-host-update.txt).
constexpr Classes kHostOfGpu{{0.65, 1e-6}, kCpuAttention, {0.6, 1e-6},
                             {0.65, 1e-6}, kCpuAttention, kCpuAttention};

const Classes& classes_of(Backend backend) { return backend == Backend::cuda ? kGpu : kCpu; }

// Before a copy's first byte: a launch and the way to the host's memory and back.
constexpr double kLinkLatency = 8e-6;

// Do two lanes share the link, one for each direction?
bool moves_both_ways(const Module& module, const Program& program) {
  std::string_view in, out;
  for (const Op& op : program.ops) {
    const auto move = move_of(module, op);
    if (!move) continue;
    if (move->to == Space::device) in = op.lane;
    if (move->from == Space::device) out = op.lane;
  }
  return !in.empty() && !out.empty() && in != out;
}

// 0: there are none.
int64_t ranks_of_collectives(const Module& module) {
  for (const Program& program : module.programs)
    for (const Op& op : program.ops)
      if (op.def->comm == Comm::collective) return op.attrs.i("ranks");
  return 0;
}

// The little arithmetic of norms, embeddings and updates goes by a matmul's rate, that among
// activations alone by attention's: so the classes were fitted.
bool touches_weights(const Module& module, const Op& op) {
  const auto is = [&](Category category) {
    return
        [&module, category](ValueId id) { return id.valid() && module[id].category == category; };
  };
  return std::ranges::any_of(op.inputs, is(Category::params)) ||
         std::ranges::any_of(op.outputs, is(Category::grads));
}

double by_catalogue(const Roof& roof, const Classes& classes, const Class& arithmetic) {
  const Roof reached{roof.arithmetic / arithmetic.efficiency,
                     roof.traffic / classes.traffic.efficiency};
  return reached.seconds() + (roof.by_arithmetic() ? arithmetic : classes.traffic).extra_seconds;
}

// "0.5 cores", "1 core", "128 cores"
std::string counted_cores(double cores) {
  if (cores == std::floor(cores)) return counted(static_cast<int64_t>(cores), "core");
  return fmt::format("{:.1f} cores", cores);
}

// OpWork without its words: what is looked up for every op of every candidate.
struct Key {
  const OpDef* def = nullptr;
  Dtype dtype = Dtype::f32;
  uint32_t has = 0;
  int64_t flops = 0, bytes = 0, exps = 0;
  friend bool operator==(const Key&, const Key&) = default;
};
struct HashKey {
  size_t operator()(const Key& k) const {
    size_t hash = std::hash<const void*>{}(k.def);
    for (const int64_t part :
         {static_cast<int64_t>(k.dtype), int64_t{k.has}, k.flops, k.bytes, k.exps})
      hash = (hash ^ static_cast<size_t>(part)) * size_t{0x9E3779B97F4A7C15} + (hash >> 32);
    return hash;
  }
};

}  // namespace

// The times and, because a program repeats the same few works in every layer, those asked for.
struct CostModel::Measured {
  std::string device, date;
  MeasuredTimes times;
  std::mutex mutex;
  std::unordered_map<Key, std::optional<double>, HashKey> known;

  Measured(const Calibration& c, const DeviceSpec& spec)
      : device(c.device),
        date(c.date),
        times(c, spec, classes_of(spec.backend).traffic.extra_seconds) {}

  template <typename WorkOf>
  std::optional<double> seconds(const Key& key, const WorkOf& work) {
    const std::scoped_lock lock(mutex);
    const auto [place, is_new] = known.try_emplace(key);
    if (is_new) place->second = times.seconds(work());
    return place->second;
  }
};

CostModel::CostModel(DeviceSpec spec, Math math, std::optional<Calibration> measured)
    : spec_(std::move(spec)),
      math_(math),
      surroundings_{.link = spec_.link},
      measured_(measured ? std::make_shared<Measured>(*measured, spec_) : nullptr) {
  if (!measured) return;
  if (measured->link) surroundings_.link = *measured->link;
  if (measured->host_bytes_per_s > 0) surroundings_.cpu.bytes_per_s = measured->host_bytes_per_s;
  if (measured->disk) surroundings_.disk = *measured->disk;
  measured_disk_ = measured->disk.has_value();
  measured_link_ = measured->link.has_value();
  measured_host_ = measured->host_bytes_per_s > 0;
}

std::vector<double> CostModel::seconds(const Module& module, const Program& program) const {
  std::vector<double> alone = seconds_alone(module, program);
  return cores_ ? seconds_sharing(module, program, std::move(alone), *cores_) : alone;
}

std::vector<double> CostModel::seconds_alone(const Module& module, const Program& program) const {
  const bool both_ways = moves_both_ways(module, program);
  std::vector<double> each;
  each.reserve(program.ops.size());
  for (const Op& op : program.ops) each.push_back(seconds(module, op, both_ways));
  return each;
}

// Nothing inside one memory: then a copy is an op like others.
std::optional<double> CostModel::move_seconds(const Move& move, bool both_ways) const {
  const auto bytes = static_cast<double>(move.bytes);
  if (move.from == Space::disk) return DiskRates::kLatency + bytes / surroundings_.disk.read;
  if (move.to == Space::disk) return DiskRates::kLatency + bytes / surroundings_.disk.write;
  if (spec_.backend == Backend::cpu) return std::nullopt;
  const Link& link = surroundings_.link;
  const double alone = move.to == Space::device ? link.in : link.out;
  return kLinkLatency + bytes / (both_ways ? std::min(alone, link.both) : alone);
}

// A collective's cost counts what one rank sends of it.
double CostModel::wire_seconds(const Module& module, const Op& op) const {
  constexpr double kLatency = 15e-6;  // seconds: until all ranks are there and the first bytes come
  const int64_t ranks = op.def->comm == Comm::collective ? op.attrs.i("ranks") : 2;
  const int64_t stride = op.attrs.i("stride", 1);
  const auto bytes = static_cast<double>(cost_of(module, op, spec_.backend).bytes_read);
  const WireTimes* measured = stride == 1 ? measured_wire(ranks) : nullptr;
  if (measured != nullptr) return measured->seconds(bytes);
  const double rate = op.def->collective == CollectiveKind::exchange
                          ? spec_.wire.exchange_rate(ranks)
                          : spec_.wire.rate(ranks, stride);
  return kLatency + bytes / rate;
}

const WireTimes* CostModel::measured_wire(int64_t ranks) const {
  const auto found = std::ranges::find(wires_, ranks, &WireTimes::ranks);
  return found == wires_.end() ? nullptr : &*found;
}

double CostModel::seconds(const Module& module, const Op& op, bool both_ways) const {
  if (op.def->comm != Comm::none) return wire_seconds(module, op);
  if (const auto move = move_of(module, op)) {
    if (const auto seconds = move_seconds(*move, both_ways)) return *seconds;
  }
  const Backend backend = backend_in(space_of(module, op), spec_.backend);
  const bool on_host = backend != spec_.backend;
  const Cost cost = cost_of(module, op, backend);
  const int64_t bytes = cost.bytes_read + cost.bytes_written;
  const Dtype dtype = kernel_dtype(module, op);
  const uint32_t bits = kernel_bits(module, op, backend, cost, math_);
  if (measured_ != nullptr && !on_host) {
    const Key key{op.def, dtype, bits, cost.flops, bytes, cost.exps};
    const auto work = [&] { return work_of(module, op, backend, math_); };
    if (const auto seconds = measured_->seconds(key, work)) return *seconds;
  }
  const Roof roof =
      roof_of(on_host ? surroundings_.cpu : spec_, {.dtype = dtype,
                                                    .tf32 = math_.tf32,
                                                    .has = bits,
                                                    .flops = static_cast<double>(cost.flops),
                                                    .bytes = static_cast<double>(bytes)});
  const Classes& classes = on_host ? kHostOfGpu : classes_of(backend);
  const bool matmul_rate = op.def->matmul || touches_weights(module, op);
  const bool odd = (bits & kOdd) != 0 && (dtype != Dtype::f32 || math_.tf32);
  return by_catalogue(roof, classes,
                      odd                             ? classes.odd_matmul
                      : matmul_rate                   ? classes.matmul
                      : (bits & kOwnTensorCores) != 0 ? classes.own_attention
                      : (bits & kPlainTiles) != 0     ? classes.plain_attention
                                                      : classes.attention);
}

double CostModel::plain_tiles_take_times() const {
  const Classes& classes = classes_of(spec_.backend);
  return classes.attention.efficiency * spec_.peak_flops(Dtype::bf16, {}) /
         (classes.plain_attention.efficiency * spec_.peak_flops(Dtype::f32, {}));
}

std::string CostModel::origin() const {
  return measured() ? fmt::format("measurements on {}, {}", measured_->device, measured_->date)
                    : fmt::format("catalogue figures of {}", spec_.title);
}

std::string CostModel::origin_of_moves(const Module& module) const {
  bool uses[kSpaces] = {};
  for (const Value& value : module.values) uses[static_cast<size_t>(value.space)] = true;
  const auto rate = [](double bytes_per_s) {
    return fmt::format("{:.3g} GB/s", bytes_per_s / 1e9);
  };
  std::vector<std::string> parts;
  if (uses[static_cast<size_t>(Space::host)] && spec_.backend == Backend::cuda) {
    const Link& link = surroundings_.link;
    parts.push_back(fmt::format("link {} in, {} out, {} each when both run, {}", rate(link.in),
                                rate(link.out), rate(link.both),
                                measured_link_ ? "measured" : "by the catalogue"));
    parts.push_back(fmt::format("host memory {}, {}", rate(surroundings_.cpu.bytes_per_s),
                                measured_host_ ? "measured" : "assumed"));
  }
  if (uses[static_cast<size_t>(Space::disk)])
    parts.push_back(fmt::format("disk {} read, {} written, {}", rate(surroundings_.disk.read),
                                rate(surroundings_.disk.write),
                                measured_disk_ ? "measured" : "assumed"));
  if (const int64_t ranks = ranks_of_collectives(module); ranks > 1) {
    const WireTimes* measured = measured_wire(ranks);
    parts.push_back(measured != nullptr
                        ? fmt::format("wire {} and {:.0f} us a call over {}, measured",
                                      rate(measured->rate), measured->latency * 1e6,
                                      measured->engine)
                        : fmt::format("wire {}, by the catalogue", rate(spec_.wire.rate(ranks))));
  }
  if (cores_ && cores_->cores < cores_->compute + 1)
    parts.push_back(fmt::format("each rank has {} for its lanes", counted_cores(cores_->cores)));
  return join(parts, "; ");
}

CostModel nominal_model(Backend backend) {
  return {backend == Backend::cuda ? find_device("h200") : this_cpu(8), {}};
}

}  // namespace snug
