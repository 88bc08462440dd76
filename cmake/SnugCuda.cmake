# The CUDA backend, where a toolkit is found. It sets
#   SNUG_CUDA_ON               is the backend built
#   SNUG_CUDA_LIBRARIES        what hal/cuda links: only the static runtime. cuBLASLt, cuDNN, NCCL and NVML are opened when a
#                              device is, so that the binary starts on machines that have none of them.
#   SNUG_CUDA_COMPILE_OPTIONS  for every .cu file
# Code under ops/ is told with SNUG_CUDA=1, so that a build that gains the backend compiles no other folder again.
# A folder's *.cu and *_cuda.cpp files, and all of a folder named cuda, are built with it; no_cuda*.cpp without it.
set(SNUG_CUDA_ON OFF)
if(SNUG_SANITIZE OR SNUG_CUDA STREQUAL "OFF")
  return() # the host's sanitizers and device code do not mix
endif()

include(CheckLanguage)
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(SNUG_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SNUG_CUDA=ON, but no CUDA toolkit (nvcc) was found")
  endif()
  message(STATUS "no CUDA toolkit: the CUDA backend is left out")
  return()
endif()

# What the code is made for: the GPU that is here, or Hopper; or every one from Ampere on, and what comes after them. PTX
# for 12.0 is for those, PTX for 8.0 for chips between that have no code of their own (11.0).
if(SNUG_ALL_GPUS)
  set(CMAKE_CUDA_ARCHITECTURES 80 86-real 87-real 89-real 90-real 100-real 120)
elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET RESULT_VARIABLE no_gpu)
  if(no_gpu STREQUAL "0" AND gpus MATCHES "GPU 0")
    set(CMAKE_CUDA_ARCHITECTURES native)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
# What the host compiler finds by itself must not be named again: naming it changes the order of its own headers.
list(APPEND CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
find_package(CUDAToolkit REQUIRED)
set(SNUG_CUDA_ON ON)
set(SNUG_CUDA_LIBRARIES CUDA::cudart_static)

# Constant expressions of ours (philox) run on the device too; fmt 9 under nvcc needs to be told what the compiler can.
set(SNUG_CUDA_COMPILE_OPTIONS
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-DFMT_CONSTEVAL=;-DFMT_USE_CONSTEXPR=1;-Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-missing-field-initializers,-Wno-unknown-pragmas,-Werror;-Werror=all-warnings>")
if(SNUG_ALL_GPUS) # several architectures of a file at a time
  list(APPEND SNUG_CUDA_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CUDA>:--threads=4>")
endif()

# Where the libraries that are opened at run time lie. dlopen looks in the RUNPATH of the binary.
list(APPEND CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})

# cuDNN: next to the toolkit, or as Python's package. cudnn-frontend: headers only, fetched by ./dev into .deps.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('purelib'))"
                  OUTPUT_VARIABLE python_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${python_packages}/nvidia/cudnn/include)
find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS ${PROJECT_SOURCE_DIR}/.deps/cudnn-frontend/include
          ${python_packages}/include)
find_path(CUDNN_LIBRARY_DIR libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} ${python_packages}/nvidia/cudnn/lib)
if(CUDNN_LIBRARY_DIR)
  list(APPEND CMAKE_BUILD_RPATH ${CUDNN_LIBRARY_DIR})
endif()
# NCCL likewise; only the library, no header of it.
find_path(NCCL_LIBRARY_DIR libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ${python_packages}/nvidia/nccl/lib)
if(NCCL_LIBRARY_DIR)
  list(APPEND CMAKE_BUILD_RPATH ${NCCL_LIBRARY_DIR})
endif()
set(SNUG_CUDNN_ON OFF)
if(CUDNN_INCLUDE AND CUDNN_FRONTEND_INCLUDE)
  set(SNUG_CUDNN_ON ON)
endif()
list(REMOVE_DUPLICATES CMAKE_BUILD_RPATH)
message(STATUS "CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}; cuDNN attention: ${SNUG_CUDNN_ON}")
