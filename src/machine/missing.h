// The advice of `snug doctor`: separate from the probing, so that tests cover every machine.
#pragma once

#include <vector>

#include "hal/cuda/probe.h"
#include "report/doctor_report.h"

namespace snug {

// GPU parts that are missing or unusable, with the cost of each and what to do.
std::vector<Missing> missing_of(const CudaProbe& probe);
// MPI, which ranks on CPUs can do without.
Missing missing_mpi();
// Libraries that tokenizers need and the build may lack.
std::vector<Missing> missing_for_tokenizers();

}  // namespace snug
