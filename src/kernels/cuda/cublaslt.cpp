#include "kernels/cuda/cublaslt.h"

#include <dlfcn.h>

namespace snug::ops {
namespace {

constexpr const char* kHint = "`snug doctor` says which libraries are found and which are missing";

void* open_library() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw device_error("{}, which multiplies matrices on the GPU, cannot be opened: {}", name,
                       dlerror())
        .hint(kHint);
  return library;
}

template <typename Fn>
void find(Fn& function, void* library, const char* name) {
  function = reinterpret_cast<Fn>(dlsym(library, name));
  if (function == nullptr)
    throw device_error("cuBLASLt has no function {}: it is older than this build's {}.{}", name,
                       CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR)
        .hint(kHint);
}

CublasLt open_cublaslt() {
  void* const library = open_library();
  CublasLt lt;
  find(lt.Create, library, "cublasLtCreate");
  find(lt.GetVersion, library, "cublasLtGetVersion");
  find(lt.GetStatusName, library, "cublasLtGetStatusName");
  find(lt.Matmul, library, "cublasLtMatmul");
  find(lt.MatmulAlgoCheck, library, "cublasLtMatmulAlgoCheck");
  find(lt.MatmulAlgoGetHeuristic, library, "cublasLtMatmulAlgoGetHeuristic");
  find(lt.MatmulDescCreate, library, "cublasLtMatmulDescCreate");
  find(lt.MatmulDescDestroy, library, "cublasLtMatmulDescDestroy");
  find(lt.MatmulDescSetAttribute, library, "cublasLtMatmulDescSetAttribute");
  find(lt.MatmulPreferenceCreate, library, "cublasLtMatmulPreferenceCreate");
  find(lt.MatmulPreferenceDestroy, library, "cublasLtMatmulPreferenceDestroy");
  find(lt.MatmulPreferenceSetAttribute, library, "cublasLtMatmulPreferenceSetAttribute");
  find(lt.MatrixLayoutCreate, library, "cublasLtMatrixLayoutCreate");
  find(lt.MatrixLayoutDestroy, library, "cublasLtMatrixLayoutDestroy");
  return lt;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt lt = open_cublaslt();
  return lt;
}

cublasLtHandle_t cublaslt_handle() {
  static const cublasLtHandle_t handle = [] {
    cublasLtHandle_t made = nullptr;
    cublaslt().check(cublaslt().Create(&made), "opening the device");
    return made;
  }();
  return handle;
}

}  // namespace snug::ops
