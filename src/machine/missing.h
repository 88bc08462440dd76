// What `snug doctor` advises: apart from the asking, so that every machine can be tried.
#pragma once

#include <vector>

#include "hal/cuda/probe.h"
#include "report/doctor_report.h"

namespace snug {

// What is not there or cannot be used, with its cost and what to do: of the GPUs.
std::vector<Missing> missing_of(const CudaProbe& probe);
// What ranks on CPUs can do without.
Missing missing_mpi();
// What tokenizers need and the build may lack.
std::vector<Missing> missing_for_tokenizers();

}  // namespace snug
