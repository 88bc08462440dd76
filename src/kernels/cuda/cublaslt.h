// cuBLASLt, opened when the first GEMM needs it: nothing links against it, so that the binary
// starts on machines that have no GPU.
#pragma once

#include <cublasLt.h>

#include <string>

#include "base/error.h"

namespace snug::ops {

// The functions that are used, under their own names without the prefix.
struct CublasLt {
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtGetVersion) GetVersion = nullptr;
  decltype(&cublasLtGetStatusName) GetStatusName = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) MatmulAlgoCheck = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;

  template <typename... Args>
  void check(cublasStatus_t status, fmt::format_string<Args...> format, Args&&... args) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw device_error("cuBLASLt failed while {}: {}",
                       fmt::format(format, std::forward<Args>(args)...), GetStatusName(status));
  }
};

// Throws a device error that says what is missing.
const CublasLt& cublaslt();

// The process's handle, made on the device that is current at the first call.
cublasLtHandle_t cublaslt_handle();

}  // namespace snug::ops
