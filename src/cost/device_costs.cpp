#include "cost/device_costs.h"

#include <omp.h>

#include <map>
#include <mutex>
#include <tuple>

#include "hal/cpu/cpu_name.h"
#include "hal/cuda/probe.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

struct Known {
  fs::file_time_type when;
  std::optional<CostModel> model;  // none: the file is of no use
};

// By its calibration, where it has one. Options are resolved many times in a search: the file is
// read again only when it has changed, and the cost of ops that a model has cached is kept.
std::optional<CostModel> measured_model(const DeviceSpec& spec, const std::string& device,
                                        int64_t threads, const std::string& versions,
                                        const Math& math) {
  static std::mutex mutex;
  static std::map<std::tuple<fs::path, bool, bool>, Known> known;
  const fs::path path = calibration_path(device, threads);
  std::error_code missing;
  const fs::file_time_type when = fs::last_write_time(path, missing);
  if (missing) return {};
  const std::scoped_lock lock(mutex);
  Known& entry = known[{path, math.tf32, math.deterministic}];
  if (entry.when != when) {
    entry = {when, {}};
    if (auto measured = read_calibration(path, device, threads, versions))
      entry.model.emplace(spec, math, std::move(measured));
  }
  return entry.model;
}

const CudaProbe& probed() {
  static const CudaProbe probe = probe_cuda();
  return probe;
}

// A GPU that the catalogue does not know is taken for one that it does, under its own name.
DeviceSpec spec_here() {
  const GpuProbe& gpu = probed().driver.gpus.front();
  const int64_t memory = gpu.memory ? gpu.memory->total : 0;
  if (const DeviceSpec* spec = match_device(gpu.name, memory)) return *spec;
  DeviceSpec spec = nominal_model(Backend::cuda).spec();
  spec.title = gpu.name;
  return spec;
}

// The wires of a device, read again only when their file has changed.
std::vector<WireTimes> wires_of(const std::string& device) {
  static std::mutex mutex;
  static std::map<fs::path, std::pair<fs::file_time_type, std::vector<WireTimes>>> known;
  const fs::path path = wire_path(device);
  std::error_code missing;
  const fs::file_time_type when = fs::last_write_time(path, missing);
  if (missing) return {};
  const std::scoped_lock lock(mutex);
  auto& [read_at, wires] = known[path];
  if (read_at != when) {
    read_at = when;
    wires = read_wires(path);
  }
  return wires;
}

CostModel gpu_cost_model(const Options& o, const Math& math) {
  if (o.gpu.empty() && gpu_here().empty()) return {nominal_model(Backend::cuda).spec(), math};
  const DeviceSpec spec = o.gpu.empty() ? spec_here() : find_device(o.gpu);
  const std::string& name = o.gpu.empty() ? gpu_here() : spec.title;
  // The file may be of another machine with such a GPU: then its versions are not ours to
  // judge.
  const std::string versions = name == gpu_here() ? gpu_versions() : "";
  return measured_model(spec, name, 0, versions, math).value_or(CostModel(spec, math));
}

}  // namespace

const std::string& gpu_here() {
  static const std::string name =
      probed().why_not.empty() ? probed().driver.gpus.front().name : std::string();
  return name;
}

bool gpu_answers() {
  return !gpu_here().empty() && works_on(probed(), probed().driver.gpus.front());
}

std::string gpu_versions() {
  return fmt::format("driver {}, cuBLASLt {}, cuDNN {}", probed().driver.version,
                     probed().cublas_lt.version, probed().cudnn.version);
}

int64_t threads_of(int64_t asked) { return asked > 0 ? asked : omp_get_max_threads(); }

CostModel cost_model_for(const Options& o, const Math& math, const RankHere& here) {
  const bool gpu = !o.gpu.empty() || o.device == DeviceChoice::cuda;
  const int64_t threads = threads_of(o.threads);
  CostModel model = gpu ? gpu_cost_model(o, math)
                        : measured_model(this_cpu(threads), cpu_name(), threads, "", math)
                              .value_or(nominal_model(Backend::cpu));
  if (!gpu && model.measured() && o.ranks > 1)
    model.share_cores({.cores = here.cores > 0 ? here.cores
                                               : static_cast<double>(count_cores(cores_here())) /
                                                     static_cast<double>(o.ranks),
                       .compute = static_cast<double>(threads)});
  model.use_wires(wires_of(!gpu                             ? cpu_name()
                           : o.gpu.empty() && gpu_answers() ? gpu_here()
                                                            : model.spec().title));
  return model;
}

}  // namespace snug
