// What `snug doctor` advises: apart from the asking, so that every machine can be tried.
#pragma once

#include <vector>

#include "hal/cuda/probe.h"
#include "report/doctor_report.h"

namespace snug {

// What is not there or cannot be used, with its cost and what to do.
std::vector<Missing> missing_of(const CudaProbe& probe);

}  // namespace snug
