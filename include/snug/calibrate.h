// Measures this device, so that plans rest on what it does and not on its data sheet.
//
//   snug::CalibrateReport report = snug::calibrate({.device = DeviceChoice::cuda}, {});
//   report.path;   // where plans for this device find it from now on
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "settings/run_words.h"

namespace snug {

struct CalibrateOptions {
  Open<DeviceChoice> device;  // auto: cuda where a GPU answers, else cpu
  int64_t threads = 0;        // of the CPU; 0: all
  std::string offload_dir;    // a directory on the disk that is measured too; empty: none
  double seconds = 0;         // after which no other setting is begun; 0: as the device needs
  int64_t ranks = 0;          // processes between which collectives are timed, and nothing else
  bool share_gpu = false;     // several of them use one GPU
};

// Measurements of one kind of op in one type.
struct KindRates {
  std::string kind, dtype;
  int64_t points = 0;
  bool arithmetic = false;    // rates are operations per second; else bytes per second
  double best = 0, mean = 0;  // rates: of one size, and of all together
  double seconds = 0;         // in all settings together
};

struct CalibrateReport {
  std::string device;
  int64_t threads = 0;                 // 0 on a GPU
  std::string path;                    // where it is kept
  int64_t settings = 0, measured = 0;  // small trainings: how many there are, and were timed
  int64_t points = 0;                  // distinct ops
  double copy_bytes_per_s = 0;
  // Bytes per second between a GPU and its host: to it, from it, and each way at once. 0: none.
  double link_in = 0, link_out = 0, link_both = 0;
  double disk_read_bytes_per_s = 0, disk_write_bytes_per_s = 0;  // 0: not measured
  // Between ranks: a collective of a few bytes, and what a rank sends while it receives as many.
  int64_t ranks = 0;  // 0: not measured; else nothing else is
  std::string engine;
  double wire_latency = 0, wire_bytes_per_s = 0;
  double seconds = 0;            // that it took
  std::vector<KindRates> kinds;  // those that take the longest first
};

struct CalibrateObserver {
  // A setting was timed, or left out for the reason in `why_not`.
  std::function<void(const CalibrateReport& so_far, const std::string& setting, double step_ms,
                     const std::string& why_not)>
      measured;
};

// Replaces what was measured before. In a job of several ranks (snug/ranks.h): what its collectives
// take. Throws a device error where there is no such device.
CalibrateReport calibrate(const CalibrateOptions& options, const CalibrateObserver& observer);

}  // namespace snug
