#include "measure/calibrate_wire.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <functional>

#include "base/median.h"
#include "cost/device_costs.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cpu/cpu_name.h"
#include "hal/cuda/cuda_device.h"
#include "machine/ranks.h"
#include "ops/comm/comm.h"
#include "passes/sharding.h"
#include "recipe/resolve.h"
#include "runtime/job_links.h"

namespace snug {
namespace {

// Seconds of one call, when all ranks make it at once.
double seconds_of(Communicator& group, Device& device, int times,
                  const std::function<void()>& call) {
  using Time = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int run = 0; run <= times; ++run) {
    device.synchronise();
    group.barrier();
    const auto start = Time::now();
    call();
    device.synchronise();
    const std::chrono::duration<double> took = Time::now() - start;
    if (run > 0) seconds.push_back(took.count());  // the first opens connections
  }
  return median(std::move(seconds));
}

}  // namespace

WireTimes measure_wire(Communicator& group, Device& device, int64_t bytes) {
  constexpr int64_t kFew = 256;
  constexpr int kManyTimes = 40, kFewTimes = 7;
  const int64_t ranks = group.ranks();
  const int64_t block = std::max<int64_t>(bytes / ranks / kFew * kFew, kFew);
  const std::unique_ptr<Memory> from = device.allocate(block * ranks),
                                to = device.allocate(block * ranks);
  void* const stream = device.stream();
  const auto gather = [&](int64_t size) {
    group.all_gather({from->data(), static_cast<size_t>(size)}, to->data(), stream);
  };
  const auto exchange = [&](int64_t size) {
    group.all_to_all(from->data(), to->data(), size, stream);
  };
  const auto slower = [&](int64_t size, int times) {
    return std::max(seconds_of(group, device, times, [&] { gather(size); }),
                    seconds_of(group, device, times, [&] { exchange(size); }));
  };
  WireTimes wire{.ranks = ranks, .engine = std::string(group.engine())};
  wire.latency = slower(kFew, kManyTimes);
  const double sent = static_cast<double>(block * (ranks - 1));
  wire.rate = sent / std::max(slower(block, kFewTimes) - wire.latency, 1e-9);
  return wire;
}

CalibrateReport calibrate_wire(Job& job, const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  require_same_run(job, options);
  const bool gpu = device_of(options) == DeviceChoice::cuda;
  const std::unique_ptr<Device> device =
      gpu ? cuda_device(options.share_gpu ? 0 : job.local_rank()) : cpu_device();
  const Sharding group{.ranks = job.ranks(), .rank = job.rank()};
  JobLinks links(job, device->kind(), Mesh{}, group);
  WireTimes wire = measure_wire(links.group_of("calibrate", over_all(group).axis), *device);
  const auto slowest = [&](double seconds) {
    // The bits of positive numbers are in their order.
    return std::bit_cast<double>(std::ranges::max(job.gather(std::bit_cast<int64_t>(seconds))));
  };
  wire.latency = slowest(wire.latency);
  wire.rate = 1 / slowest(1 / wire.rate);
  const std::string name = gpu ? gpu_here() : cpu_name();
  CalibrateReport report{.device = name,
                         .path = options.share_gpu ? "" : wire_path(name).string(),
                         .ranks = wire.ranks,
                         .engine = wire.engine,
                         .wire_latency = wire.latency,
                         .wire_bytes_per_s = wire.rate};
  if (job.local_rank() == 0 && !report.path.empty()) keep_wire(report.path, wire);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace snug
