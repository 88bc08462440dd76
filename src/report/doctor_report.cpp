#include "report/doctor_report.h"

#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr int kFactColumns = 16;

class Table {
 public:
  // "✓ cuDNN    9.13.0", or "✗ cuDNN    what is not there".
  void row(bool there, std::string_view name, const std::string& text) {
    text_ += fmt::format("{} {:<{}}{}", there ? "✓" : "✗", name, kFactColumns,
                         wrap(text, kFactColumns + 2));
  }
  void more(const std::string& text) {
    text_ += fmt::format("  {:<{}}{}", "", kFactColumns, wrap(text, kFactColumns + 2));
  }
  void library(std::string_view name, const LibraryProbe& library) {
    row(!library.version.empty(), name,
        library.version.empty() ? library.file + " cannot be opened" : library.version);
  }
  void missing(const std::vector<Missing>& all) {
    text_ += all.empty() ? "\nnothing is missing\n" : "\nwhat is missing\n";
    for (const Missing& m : all) {
      text_ += fmt::format("  {:<{}}{}", m.what, kFactColumns, wrap(m.costs, kFactColumns + 2));
      more(m.get);
    }
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

std::string gpu_text(const GpuProbe& gpu) {
  std::string text = fmt::format("{}, compute capability {}.{}", gpu.name, gpu.major, gpu.minor);
  if (gpu.multiprocessors > 0) text += fmt::format(", {} multiprocessors", gpu.multiprocessors);
  if (gpu.memory) {
    text += fmt::format(", {}, {} free", format_bytes(gpu.memory->total),
                        format_bytes(gpu.memory->free));
  }
  return text;
}

int capability_of(const GpuProbe& gpu) { return 10 * gpu.major + gpu.minor; }
std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

// "8.0, 9.0 and PTX of 9.0"
std::string built_text(const std::vector<BuiltArchitecture>& built) {
  std::vector<std::string> native, ptx;
  for (const BuiltArchitecture& b : built) {
    if (b.native) native.push_back(capability_text(b.capability));
    if (b.ptx) ptx.push_back("PTX of " + capability_text(b.capability));
  }
  return join(native, ", ") + (native.empty() || ptx.empty() ? "" : " and ") + join(ptx, ", ");
}

std::string code_text(const CudaProbe& probe, const GpuProbe& gpu) {
  switch (code_for(probe.built_for, capability_of(gpu))) {
    case GpuCode::native:
      return "native code in this binary";
    case GpuCode::ptx:
      return fmt::format(
          "no native code in this binary (it has {}): PTX is compiled when it is first used",
          built_text(probe.built_for));
    case GpuCode::none:
      return fmt::format("no code in this binary, which has {}", built_text(probe.built_for));
  }
  return "";
}

std::string multiprocessor_text(const GpuProbe& gpu) {
  return fmt::format("{} of shared memory a block, {} threads a multiprocessor",
                     format_bytes(gpu.shared_of_block), format_exact(gpu.threads));
}

std::string features_text(const GpuFeatures& has) {
  return fmt::format("tensor cores in bf16, fp16{}; {}", has.fp8 ? ", tf32 and fp8" : " and tf32",
                     has.clusters ? "early launches and clusters"
                                  : "no early launches or clusters (9.0 and newer have them)");
}

// Whose kernels compute flash attention (ops/attention/attention_server.h has the rule).
bool has_cudnn(const CudaProbe& probe) { return probe.cudnn_built && !probe.cudnn.version.empty(); }
std::string attention_text(const CudaProbe& probe) {
  const char* halves = has_cudnn(probe)
                           ? "cuDNN in bf16 and fp16; Snug's tensor-core kernels where there is "
                             "dropout or heads are beyond 128, and in fp32 with --tf32"
                           : "Snug's tensor-core kernels in bf16 and fp16, and in fp32 with --tf32";
  return fmt::format(
      "attention: {}; plain tiles, many times slower, in fp32 without --tf32 or "
      "with heads beyond 128",
      halves);
}

void add_facts(Table& table, const CudaProbe& probe, const GpuProbe& gpu) {
  const GpuFeatures has = features_of(capability_of(gpu));
  if (!has.supported) {
    table.more(fmt::format("not supported: Snug's kernels need compute capability {} or newer",
                           capability_text(kOldestCapability)));
    return;
  }
  if (!probe.built_for.empty()) table.more(code_text(probe, gpu));
  if (gpu.threads > 0) table.more(multiprocessor_text(gpu));
  table.more(features_text(has));
  if (probe.built) table.more(attention_text(probe));
}

std::string process_text(const GpuProcess& process) {
  std::string text = fmt::format("used by process {}", process.pid);
  if (!process.name.empty()) text += fmt::format(" ({})", process.name);
  if (process.bytes) text += ": " + format_bytes(*process.bytes);
  return text;
}

void add_gpus(Table& table, const CudaProbe& probe) {
  const bool usable = probe.why_not.empty();
  const bool said = !probe.built || probe.driver.cuda == 0;  // in the row of CUDA or the driver
  if (!usable) table.row(false, "GPU", said ? "none to use" : "none to use: " + probe.why_not);
  for (size_t i = 0; i < probe.driver.gpus.size(); ++i) {
    const GpuProbe& gpu = probe.driver.gpus[i];
    table.row(usable && works_on(probe, gpu), fmt::format("GPU {}", i), gpu_text(gpu));
    add_facts(table, probe, gpu);
    for (const GpuProcess& process : gpu.processes) table.more(process_text(process));
  }
}

std::string built_row(const CudaProbe& probe) {
  std::string text = fmt::format("backend built with {}", cuda_version_text(probe.toolkit));
  if (!probe.built_for.empty()) text += ", for " + built_text(probe.built_for);
  return text;
}

Json known(int64_t count) { return count > 0 ? Json(count) : Json(nullptr); }
Json version_or_null(int cuda) { return cuda == 0 ? Json(nullptr) : Json(cuda_version_text(cuda)); }

// Null: this build has no CUDA backend, or does not know what it was compiled for.
Json code_json(const CudaProbe& probe, const GpuProbe& gpu) {
  if (probe.built_for.empty()) return nullptr;
  const GpuCode code = code_for(probe.built_for, capability_of(gpu));
  return code == GpuCode::native ? "native" : code == GpuCode::ptx ? "ptx" : "none";
}

// What serves it, in the order in which they are asked.
Json attention_json(const CudaProbe& probe, const GpuFeatures& has) {
  Json out = Json::array();
  if (!probe.built || !has.supported) return out;
  if (has_cudnn(probe)) out.push_back("cudnn");
  out.push_back("tensor_cores");
  out.push_back("plain_tiles");
  return out;
}

Json gpu_json(const CudaProbe& probe, const GpuProbe& gpu) {
  const GpuFeatures has = features_of(capability_of(gpu));
  Json out{{"name", gpu.name},
           {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
           {"supported", has.supported},
           {"code", code_json(probe, gpu)},
           {"multiprocessors", known(gpu.multiprocessors)},
           {"threads_per_multiprocessor", known(gpu.threads)},
           {"shared_bytes_per_block", known(gpu.shared_of_block)},
           {"tensor_cores", has.tensor_cores},
           {"fp8", has.fp8},
           {"early_launches", has.early_launches},
           {"clusters", has.clusters},
           {"attention", attention_json(probe, has)},
           {"total_bytes", gpu.memory ? Json(gpu.memory->total) : Json(nullptr)},
           {"used_bytes", gpu.memory ? Json(gpu.memory->used) : Json(nullptr)},
           {"free_bytes", gpu.memory ? Json(gpu.memory->free) : Json(nullptr)},
           {"processes", Json::array()}};
  for (const GpuProcess& process : gpu.processes) {
    out["processes"].push_back({{"pid", process.pid},
                                {"name", or_null(process.name)},
                                {"bytes", process.bytes ? Json(*process.bytes) : Json(nullptr)}});
  }
  return out;
}

}  // namespace

std::string doctor_table(const HostProbe& host, const CudaProbe& probe, const MpiRow& mpi,
                         const std::vector<Missing>& missing) {
  Table table;
  table.row(true, "host",
            fmt::format("{}, {} of memory, {} available", counted(host.cores, "CPU core"),
                        format_bytes(host.memory), format_bytes(host.available)));
  table.row(true, "sockets", "between ranks on CPUs");
  table.row(!mpi.library.empty(), "MPI", mpi.library.empty() ? mpi.why_not : mpi.library);
  const DriverProbe& driver = probe.driver;
  const std::string version = driver.version.empty() ? "version unknown" : driver.version;
  table.row(driver.cuda > 0, "driver",
            driver.cuda > 0
                ? fmt::format("{}, for CUDA up to {}", version, cuda_version_text(driver.cuda))
                : "no NVIDIA driver answers");
  table.row(probe.built, "CUDA", probe.built ? built_row(probe) : "this build has no CUDA backend");
  if (probe.built) {
    table.library("cuBLASLt", probe.cublas_lt);
    table.library("cuDNN", probe.cudnn);
    table.row(probe.cudnn_built, "cuDNN frontend",
              probe.cudnn_built ? "in this build" : "not in this build");
    table.library("NCCL", probe.nccl);
  }
  add_gpus(table, probe);
  table.missing(missing);
  return std::move(table).text();
}

std::string doctor_json(const HostProbe& host, const CudaProbe& probe, const MpiRow& mpi,
                        const std::vector<Missing>& missing) {
  Json out{
      {"host",
       {{"cores", host.cores}, {"memory_bytes", host.memory}, {"available_bytes", host.available}}},
      {"mpi", or_null(mpi.library)},
      {"driver", or_null(probe.driver.version)},
      {"driver_cuda", version_or_null(probe.driver.cuda)},
      {"built_with_cuda", version_or_null(probe.toolkit)},
      {"built_with_cudnn_frontend", probe.cudnn_built},
      {"built_for", or_null(built_text(probe.built_for))},
      {"cublaslt", or_null(probe.cublas_lt.version)},
      {"cudnn", or_null(probe.cudnn.version)},
      {"nccl", or_null(probe.nccl.version)},
      {"why_no_gpu", or_null(probe.why_not)},
      {"gpus", Json::array()},
      {"missing", Json::array()}};
  for (const GpuProbe& gpu : probe.driver.gpus) out["gpus"].push_back(gpu_json(probe, gpu));
  for (const Missing& m : missing)
    out["missing"].push_back({{"what", m.what}, {"costs", m.costs}, {"get", m.get}});
  return out.dump(2);
}

}  // namespace snug
