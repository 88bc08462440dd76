#include "measure/calibrator.h"

#include <gmock/gmock.h>

#include "base/testing.h"
#include "cost/device_costs.h"
#include "cost/step_cost.h"
#include "formats/testing.h"
#include "hal/cpu/cpu_name.h"
#include "measure/calibrate_settings.h"
#include "recipe/resolve.h"
#include "search/plan_run.h"
#include "snug/set_option.h"

namespace snug {
namespace {

// A folder of its own for what is cached.
struct OwnCache {
  testing::TempDir folder;
  testing::Environment variable{"XDG_CACHE_HOME", folder.path().string()};
};

Options tiny() {
  Options o;
  o.model = "snug-tiny";
  o.batch = 2;
  o.seq = 64;
  return o;
}

double step_seconds(const Resolved& run) {
  return step_cost(plan_run(run).plan.module, run.cost_model).step_seconds;
}

TEST(Calibrate, MeasurementsDriveLaterPlans) {
  const OwnCache cache;
  ASSERT_FALSE(resolve(tiny()).cost_model.measured());
  std::vector<std::string> seen;
  const CalibrateReport report = calibrate_device(
      {.seconds = 1e-9}, {.measured = [&](const CalibrateReport&, const std::string& setting,
                                          double step_ms, const std::string& why_not) {
        seen.push_back(setting);
        EXPECT_GT(step_ms, 0) << why_not;
      }});
  EXPECT_EQ(report.measured, 1);
  EXPECT_EQ(seen.size(), 1U) << "one is measured, however little time there is";
  EXPECT_GT(report.settings, 10);
  EXPECT_GT(report.points, 20);
  EXPECT_FALSE(report.kinds.empty());
  const auto kept = read_calibration(report.path, report.device, report.threads);
  ASSERT_TRUE(kept);
  EXPECT_EQ(static_cast<int64_t>(kept->samples.size()), report.points);

  const Resolved run = resolve(tiny());
  EXPECT_TRUE(run.cost_model.measured());
  EXPECT_THAT(run.cost_model.origin(), ::testing::HasSubstr(report.device));
  EXPECT_GT(step_seconds(run), 0);
}

TEST(Calibrate, DamagedFileIsIgnored) {
  const OwnCache cache;
  const double nominal = step_seconds(resolve(tiny()));
  const CalibrateReport report = calibrate_device({.seconds = 1e-9}, {});
  ASSERT_TRUE(resolve(tiny()).cost_model.measured());
  std::filesystem::resize_file(report.path, std::filesystem::file_size(report.path) / 2);
  const Resolved run = resolve(tiny());
  EXPECT_FALSE(run.cost_model.measured());
  EXPECT_EQ(step_seconds(run), nominal);
}

TEST(Calibrate, EverySettingCanBePlannedForItsDevice) {
  for (const auto& [backend, device] :
       {std::pair(Backend::cpu, DeviceChoice::cpu), std::pair(Backend::cuda, DeviceChoice::cuda)}) {
    for (const CalibrationSetting& setting : calibration_settings(backend)) {
      SCOPED_TRACE(text(setting));
      EXPECT_GT(step_seconds(resolve(setting, device)), 0);
    }
  }
}

// Two programs with the same matmuls: in one of them something else takes most of the time.
TEST(SampleSet, LowPowerGpuMatmulsCountOnlyWithoutOthers) {
  const Resolved run = resolve(calibration_settings(Backend::cuda)[0], DeviceChoice::cuda);
  const PlannedRun planned = plan_run(run);
  const Module& module = planned.plan.module;
  const Program& program = module.program("micro_first");
  const auto add = [&](SampleSet& set, Backend backend, double matmul, double other) {
    std::vector<double> ms;
    for (const Op& op : program.ops)
      ms.push_back(is_large_matmul(op, cost_of(module, op, backend)) ? matmul : other);
    set.add(module, program, {}, ms);
  };
  const auto linear_ms = [](const SampleSet& set) {
    for (const OpSample& s : set.samples())
      if (s.kind == "linear") return s.seconds * 1e3;
    return 0.0;
  };
  SampleSet gpu(Backend::cuda);
  SampleSet cpu(Backend::cpu);
  for (int time = 0; time < 2; ++time) {
    add(gpu, Backend::cuda, 1, 100);
    add(cpu, Backend::cpu, 1, 100);
  }
  EXPECT_DOUBLE_EQ(linear_ms(gpu), 1);
  add(gpu, Backend::cuda, 5, 0.1);
  add(cpu, Backend::cpu, 5, 0.1);
  EXPECT_DOUBLE_EQ(linear_ms(gpu), 5);
  EXPECT_DOUBLE_EQ(linear_ms(cpu), 1) << "a processor has no such limit: the median of three";
}

TEST(Calibrate, RatesFollowBoundOfKind) {
  const std::vector<KindRates> rates = rates_of({
      {{.kind = "matmul", .flops = 1e9, .bytes = 1e6}, 0.1},
      {{.kind = "matmul", .flops = 2e9, .bytes = 1e6}, 0.1},
      {{.kind = "copy", .dtype = Dtype::bf16, .bytes = 4e9}, 1},
  });
  ASSERT_EQ(rates.size(), 2U);
  EXPECT_EQ(rates[0].kind, "copy") << "the one that takes longest";
  EXPECT_EQ(rates[0].dtype, "bf16");
  EXPECT_FALSE(rates[0].arithmetic);
  EXPECT_DOUBLE_EQ(rates[0].best, 4e9);
  EXPECT_TRUE(rates[1].arithmetic);
  EXPECT_EQ(rates[1].points, 2);
  EXPECT_DOUBLE_EQ(rates[1].best, 2e10);
  EXPECT_DOUBLE_EQ(rates[1].mean, 1.5e10);
}

// Times of a nominal processor say nothing about this machine's cores.
TEST(Calibrate, RanksShareMeasuredCores) {
  const OwnCache cache;
  Options o = tiny();
  set_option(o, "device", "cpu");
  o.threads = 3;
  o.ranks = 2;
  EXPECT_FALSE(cost_model_for(o, {}, {}).cores());
  write_calibration(calibration_path(cpu_name(), 3),
                    {.device = cpu_name(),
                     .threads = 3,
                     .date = "2026-11-18",
                     .copy_bytes_per_s = 1e9,
                     .samples = {{{.kind = "copy", .bytes = 1e6}, 1e-3}}});
  ASSERT_TRUE(cost_model_for(o, {}, {}).cores());
  EXPECT_EQ(cost_model_for(o, {}, {}).cores()->cores,
            static_cast<double>(count_cores(cores_here())) / 2);
  EXPECT_EQ(cost_model_for(o, {}, {}).cores()->compute, 3);
  EXPECT_EQ(cost_model_for(o, {}, {.cores = 1.5}).cores()->cores, 1.5)
      << "as the job's ranks found";
  o.ranks = 1;
  EXPECT_FALSE(cost_model_for(o, {}, {}).cores());
}

TEST(Calibrate, RefusesUnknownDevice) {
  EXPECT_THROW(calibrate_device({.device = DeviceChoice::null}, {}), Error);
}

}  // namespace
}  // namespace snug
