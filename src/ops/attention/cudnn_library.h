// cuDNN as one file of this folder uses it: opened when it is first needed, its failures ours. Only
// attention_cudnn.cpp includes it.
#pragma once

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#define CUDNN_FRONTEND_SKIP_JSON_LIB

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <cstdlib>

#include "ops/attention/attention_cudnn.h"

namespace snug::ops::cudnn {

namespace fe = cudnn_frontend;

inline bool opened() {
  static const bool found = [] {
    // The frontend opens a CUDA runtime of its own; where there are several, the one we know.
    const std::string runtime = fmt::format("libcudart.so.{}", CUDART_VERSION / 1000);
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", runtime.c_str(), /*overwrite=*/0);
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    return fe::cudnn_dlhandle != nullptr;
  }();
  return found;
}

// What cuDNN says may run over pages; its first line names the cause.
inline void check(fe::error_t status, const char* doing) {
  if (status.is_bad()) {
    const std::string all = status.get_message();
    throw device_error("cuDNN {} failed while {} attention: {}", cudnn_version(), doing,
                       all.substr(0, all.find('\n')))
        .hint(
            "CUDNN_LOGLEVEL_DBG=2 and CUDNN_LOGDEST_DBG=stderr in the environment show all of it");
  }
}
inline void check(cudnnStatus_t status, const char* doing) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw device_error("cuDNN {} failed while {}: {}", cudnn_version(), doing,
                       fe::detail::get_error_string(status));
  }
}

// One handle for the process: it lives as long as the CUDA context, which it must not outlive.
inline cudnnHandle_t handle() {
  static const cudnnHandle_t made = [] {
    cudnnHandle_t h = nullptr;
    check(fe::detail::create_handle(&h), "starting");
    return h;
  }();
  return made;
}

// What the frontend throws becomes ours.
template <typename Fn>
auto translated(Fn&& fn) {
  try {
    return fn();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw device_error("cuDNN failed: {}", e.what());
  }
}

}  // namespace snug::ops::cudnn
