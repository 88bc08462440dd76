#include "machine/missing.h"

#include <fmt/format.h>

#include "tokenizers/regex.h"
#include "tokenizers/unicode.h"

namespace snug {
namespace {

// Why no GPU is used, and what would change that; the first reason hides the others.
Missing missing_gpu(const CudaProbe& probe) {
  const std::string costs = "Everything runs on the CPU (--device cpu).";
  if (!probe.built) {
    return {"CUDA", costs,
            "Install a CUDA toolkit (nvcc on the PATH) and build again: ./dev build."};
  }
  const std::string needed = cuda_version_text(probe.toolkit);
  if (probe.driver.cuda == 0) {
    return {"driver", costs,
            fmt::format("Install NVIDIA's driver for CUDA {} or newer; in a container, start it "
                        "with the GPUs (docker: --gpus all).",
                        needed)};
  }
  if (probe.driver.cuda < probe.toolkit) {
    return {"driver", costs,
            fmt::format("Update NVIDIA's driver to one for CUDA {} or newer, or build with a CUDA "
                        "{} toolkit.",
                        needed, cuda_version_text(probe.driver.cuda))};
  }
  return {"GPU", costs,
          "`nvidia-smi` shows the GPUs that the driver has; CUDA_VISIBLE_DEVICES can hide them."};
}

std::vector<Missing> missing_libraries(const CudaProbe& probe) {
  std::vector<Missing> out;
  if (probe.cublas_lt.version.empty()) {
    out.push_back({"cuBLASLt", "Matmuls need it: no model trains on a GPU without it.",
                   fmt::format("It is part of the CUDA {} toolkit: put the directory of {} on "
                               "LD_LIBRARY_PATH.",
                               cuda_version_text(probe.toolkit), probe.cublas_lt.file)});
  }
  if (probe.cudnn.version.empty()) {
    out.push_back({"cuDNN",
                   "Attention uses Snug's own kernels: the same results within rounding, slower.",
                   "Install cuDNN 9 (pip install nvidia-cudnn-cu13, or NVIDIA's packages) and put "
                   "its directory on LD_LIBRARY_PATH."});
  }
  if (!probe.cudnn_built) {
    out.push_back({"cuDNN frontend",
                   "Attention uses Snug's own kernels: the same results within rounding, slower.",
                   "Build again where cuDNN's headers and cudnn-frontend (pip: "
                   "nvidia-cudnn-frontend) are found."});
  }
  if (probe.nccl.version.empty()) {
    out.push_back({"NCCL", "Training on several GPUs needs it; one GPU does not.",
                   "Install NCCL 2 (pip install nvidia-nccl-cu13, or NVIDIA's packages)."});
  }
  return out;
}

// A GPU that cannot be used, too old or without code in this binary, and one that starts slowly.
std::optional<Missing> missing_code(const CudaProbe& probe, size_t index) {
  const GpuProbe& gpu = probe.driver.gpus[index];
  const std::string row = fmt::format("GPU {}", index);
  if (!features_of(10 * gpu.major + gpu.minor).supported) {
    return Missing{
        row, "It is not supported: Snug's kernels need the tensor cores of Ampere.",
        fmt::format("Use a GPU of compute capability {}.{} or newer: GeForce RTX 30, A10 "
                    "or A100 and what came after.",
                    kOldestCapability / 10, kOldestCapability % 10)};
  }
  const std::string build = "Build on this machine, or for every GPU: ./dev build --all-gpus.";
  if (!works_on(probe, gpu))
    return Missing{row, "This binary has no code for it: nothing runs on it.", build};
  if (!probe.built_for.empty() &&
      code_for(probe.built_for, 10 * gpu.major + gpu.minor) == GpuCode::ptx) {
    return Missing{row, "Its code is compiled by the driver at the first start, and may be slower.",
                   build};
  }
  return {};
}

}  // namespace

Missing missing_mpi() {
  return {"MPI", "Ranks on CPUs move bytes over sockets: the same results, one machine or several.",
          "Install Open MPI (libopenmpi-dev, openmpi-bin) and build again: ./dev build."};
}

std::vector<Missing> missing_for_tokenizers() {
  std::vector<Missing> out;
  if (!has_regex()) {
    out.push_back({"PCRE2",
                   "tokenizer.json with patterns (GPT-2, Llama 3, Qwen, DeepSeek) is refused.",
                   "Install libpcre2-dev and build again: ./dev build."});
  }
  if (!has_unicode()) {
    out.push_back({"utf8proc", "tokenizer.json that normalizes text (BERT, Qwen) is refused.",
                   "Install libutf8proc-dev and build again: ./dev build."});
  }
  return out;
}

std::vector<Missing> missing_of(const CudaProbe& probe) {
  std::vector<Missing> out;
  if (!probe.why_not.empty()) out.push_back(missing_gpu(probe));
  if (!probe.built) return out;
  for (size_t i = 0; i < probe.driver.gpus.size(); ++i) {
    if (auto code = missing_code(probe, i)) out.push_back(*std::move(code));
  }
  for (Missing& library : missing_libraries(probe)) out.push_back(std::move(library));
  return out;
}

}  // namespace snug
