// What `snug calibrate` says: a line for each setting as it is measured, and the rates of every
// kind of op.
#pragma once

#include <string>

#include "snug/calibrate.h"

namespace snug {

// `why_not` is empty where the setting was measured.
std::string calibrate_line(const CalibrateReport& so_far, const std::string& setting,
                           double step_ms, const std::string& why_not);
std::string calibrate_table(const CalibrateReport& report);
std::string calibrate_json(const CalibrateReport& report);

}  // namespace snug
