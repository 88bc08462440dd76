// Times the ops of small trainings in their place in a step. No op is named here: what a
// step is made of is what is measured.
#include "measure/calibrator.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <tuple>

#include "base/error.h"
#include "base/median.h"
#include "base/notes.h"
#include "cost/device_costs.h"
#include "cost/measured_link.h"
#include "hal/cpu/cpu_name.h"
#include "hal/cuda/probe.h"
#include "hal/cuda/stream_times.h"
#include "kernels/cpu/gemm.h"
#include "machine/open_device.h"
#include "measure/calibrate_settings.h"
#include "measure/disk_rates.h"
#include "measure/timed_training.h"
#include "runtime/op_times.h"
#include "settings/option_checks.h"

namespace snug {

void SampleSet::add(const Module& module, const Program& program, const Math& math,
                    const std::vector<double>& ms) {
  std::vector<bool> is_matmul;
  double all = 0, matmuls = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    is_matmul.push_back(is_large_matmul(op, cost_of(module, op, backend_)));
    all += ms[i];
    if (is_matmul[i]) matmuls += ms[i];
  }
  const bool spares_power = backend_ == Backend::cuda && matmuls < all / 2;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    Seconds& seconds = spares_power && is_matmul[i] ? with_power_to_spare_ : seconds_;
    seconds[work_of(module, program.ops[i], backend_, math)].push_back(ms[i] * 1e-3);
  }
}

std::vector<OpSample> SampleSet::samples() const {
  constexpr int kEnough = 2;  // from so many sizes of the same kernel on, others do not count
  std::vector<OpSample> out;
  const auto take = [&](const OpWork& work, const std::vector<double>& seconds) {
    if (const double typical = median(seconds); typical > 0) out.push_back({work, typical});
  };
  for (const auto& [work, seconds] : seconds_) take(work, seconds);
  const auto kernel = [](const OpWork& w) { return std::tie(w.kind, w.dtype, w.tf32, w.has); };
  for (const auto& [work, seconds] : with_power_to_spare_) {
    const auto same = [&, &spare = work](const auto& other) {
      return kernel(other.first) == kernel(spare);
    };
    if (std::ranges::count_if(seconds_, same) < kEnough) take(work, seconds);
  }
  return out;
}

std::vector<KindRates> rates_of(const std::vector<OpSample>& samples) {
  struct Sums {
    double flops = 0, bytes = 0;
    std::vector<const OpSample*> all;
  };
  std::map<std::pair<std::string, std::string>, Sums> kinds;
  for (const OpSample& s : samples) {
    Sums& sums = kinds[{s.kind, s.tf32 ? "tf32" : std::string(name_of(s.dtype))}];
    sums.flops += s.flops;
    sums.bytes += s.bytes;
    sums.all.push_back(&s);
  }
  std::vector<KindRates> out;
  for (const auto& [key, sums] : kinds) {
    const Cost all{.flops = static_cast<int64_t>(sums.flops),
                   .bytes_read = static_cast<int64_t>(sums.bytes)};
    KindRates row{.kind = key.first,
                  .dtype = key.second,
                  .points = static_cast<int64_t>(sums.all.size()),
                  .arithmetic = is_arithmetic(all)};
    for (const OpSample* s : sums.all) {
      row.best = std::max(row.best, (row.arithmetic ? s->flops : s->bytes) / s->seconds);
      row.seconds += s->seconds;
    }
    row.mean = (row.arithmetic ? sums.flops : sums.bytes) / row.seconds;
    out.push_back(row);
  }
  std::ranges::sort(out, std::greater{}, &KindRates::seconds);
  return out;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGpuSeconds = 105, kCpuSeconds = 90;
constexpr double kWarmSeconds = 0.4;  // of a micro-batch

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

// A large copy in the processor's memory, by all threads: bytes read and written per second.
double host_copy_bytes_per_s() {
  constexpr int64_t kBytes = int64_t{128} << 20;
  constexpr int kCopies = 5;
  std::vector<char> from(kBytes, 1), to(kBytes);
  std::vector<double> seconds;
  for (int copy = 0; copy < kCopies; ++copy) {
    const auto start = Clock::now();
#pragma omp parallel
    {
      const int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
      const int64_t begin = kBytes * i / n;
      std::memcpy(to.data() + begin, from.data() + begin,
                  static_cast<size_t>(kBytes * (i + 1) / n - begin));
    }
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return 2.0 * kBytes / median(std::move(seconds));
}

class Calibrator {
 public:
  Calibrator(const CalibrateOptions& options, const CalibrateObserver& observer)
      : options_(options),
        observer_(observer),
        device_(options.device.value_or(gpu_answers() ? DeviceChoice::cuda : DeviceChoice::cpu)),
        backend_(device_ == DeviceChoice::cuda ? Backend::cuda : Backend::cpu),
        samples_(backend_) {
    if (device_ == DeviceChoice::null)
      throw usage_error("--device null: there is nothing to measure");
    require_between(0, 4096, static_cast<double>(options.threads), "threads");
    require_between(0, 86400, options.seconds, "seconds");
    if (backend_ == Backend::cpu) {
      report_.threads = threads_of(options.threads);
      ops::use_threads(report_.threads);
      report_.device = cpu_name();
    } else if (const std::string why = why_no_cuda(); !why.empty()) {
      throw device_error("{}", why).hint("`snug doctor` says what is there and what is missing");
    } else {
      report_.device = gpu_here();
    }
    report_.path = calibration_path(report_.device, report_.threads).string();
    if (report_.path.empty()) {
      throw usage_error(
          "there is nowhere to keep a calibration: neither HOME nor XDG_CACHE_HOME is set")
          .hint("XDG_CACHE_HOME=DIR snug calibrate");
    }
  }

  CalibrateReport run() {
    if (!options_.offload_dir.empty()) disk_ = measure_disk(options_.offload_dir);
    report_.disk_read_bytes_per_s = disk_ ? disk_->read : 0;
    report_.disk_write_bytes_per_s = disk_ ? disk_->write : 0;
    const auto settings = calibration_settings(backend_);
    const double limit = options_.seconds > 0        ? options_.seconds
                         : backend_ == Backend::cuda ? kGpuSeconds
                                                     : kCpuSeconds;
    report_.settings = static_cast<int64_t>(settings.size());
    for (const CalibrationSetting& setting : settings) {
      if (report_.measured > 0 && passed() > limit) break;
      measure(setting);
    }
    keep();
    report_.kinds = rates_of(samples_.samples());
    report_.seconds = passed();
    return report_;
  }

 private:
  double passed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // A setting whose types or bytes the device does not have is left out.
  void measure(const CalibrationSetting& setting) {
    std::string why_not;
    double step_ms = 0;
    try {
      Resolved run = resolve(setting, device_);
      run.math.quick_autotune = true;  // many matmuls, each met in few trainings
      const std::unique_ptr<Device> device = open_device(run);
      if (report_.copy_bytes_per_s == 0) measure_copies(*device);
      step_ms = time_ops_of(run, *device);
      ++report_.measured;
    } catch (const Error& error) {
      if (error.code() != ExitCode::does_not_fit && error.code() != ExitCode::device) throw;
      why_not = error.what();
    }
    if (observer_.measured) observer_.measured(report_, text(setting), step_ms, why_not);
  }

  void measure_copies(Device& device) {
    const double host = host_copy_bytes_per_s();
    report_.copy_bytes_per_s = backend_ == Backend::cuda ? copy_bytes_per_s(device) : host;
    if (backend_ == Backend::cpu) return;
    host_bytes_per_s_ = host;
    try {
      link_ = measured_link(device);
    } catch (const Error& error) {  // little memory, or none that can be pinned
      if (error.code() != ExitCode::does_not_fit) throw;
      note("the link to the host is not measured: {}", error.what());
      return;
    }
    report_.link_in = link_->in;
    report_.link_out = link_->out;
    report_.link_both = link_->both;
  }

  // A GPU is timed as it runs all day: hot, at the clock that its power allows, and without waiting
  // for data.
  void warm_up(Executor& executor, std::string_view program) const {
    constexpr int kAhead = 4;
    for (const double end = passed() + kWarmSeconds; passed() < end;) {
      for (int run = 0; run < kAhead; ++run) executor.run(program);
      executor.device().synchronise();
    }
  }

  // Milliseconds of a step, from its ops.
  double time_ops_of(const Resolved& run, Device& device) {
    const bool gpu = backend_ == Backend::cuda;
    TimedTraining training(run, device);
    training.run_steps(gpu ? 3 : 1);
    const TimingEffort effort = gpu ? TimingEffort{.least = 5, .most = 40, .seconds = 0.25}
                                    : TimingEffort{.least = 3, .most = 9, .seconds = 0.7};
    // The update first: it reads the gradients of real steps, and is not repeated to warm up.
    auto programs = programs_of_step(training.module());
    std::ranges::reverse(programs);
    double step_ms = 0;
    for (const auto& [name, times] : programs) {
      if (gpu && name != programs.front().first) warm_up(training.executor(), name);
      const auto ms = ms_within_program(training.executor(), name, effort);
      samples_.add(training.module(), training.module().program(name), run.math, ms);
      for (const double one : ms) step_ms += static_cast<double>(times) * one;
    }
    return step_ms;
  }

  void keep() {
    Calibration measured{.device = report_.device,
                         .threads = report_.threads,
                         .versions = backend_ == Backend::cuda ? gpu_versions() : "",
                         .date = today(),
                         .copy_bytes_per_s = report_.copy_bytes_per_s,
                         .samples = samples_.samples(),
                         .link = link_,
                         .disk = disk_,
                         .host_bytes_per_s = host_bytes_per_s_};
    if (measured.samples.empty())
      throw device_error("no setting could be measured on {}", report_.device);
    report_.points = static_cast<int64_t>(measured.samples.size());
    write_calibration(report_.path, measured);
  }

  const CalibrateOptions& options_;
  const CalibrateObserver& observer_;
  DeviceChoice device_;
  Backend backend_;
  SampleSet samples_;
  std::optional<DiskRates> disk_;
  CalibrateReport report_;
  std::optional<Link> link_;
  double host_bytes_per_s_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

CalibrateReport calibrate_device(const CalibrateOptions& options,
                                 const CalibrateObserver& observer) {
  return Calibrator(options, observer).run();
}

}  // namespace snug
