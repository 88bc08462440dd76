#include "report/doctor_report.h"

#include <fmt/format.h>

#include "base/units.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr int kFactColumns = 16;

// Text in lines of kColumns, broken between words; all but the first begin with `indent` blanks.
std::string wrap(const std::string& text, int indent) {
  std::string out;
  int column = indent;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const auto width = static_cast<int>(end - at);
    if (column > indent && column + 1 + width > kColumns) {
      out += "\n" + std::string(static_cast<size_t>(indent), ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(at, end - at);
    column += width;
    at = end + 1;
  }
  return out + "\n";
}

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
    table.row(usable, fmt::format("GPU {}", i), gpu_text(gpu));
    for (const GpuProcess& process : gpu.processes) table.more(process_text(process));
  }
}

Json version_or_null(int cuda) { return cuda == 0 ? Json(nullptr) : Json(cuda_version_text(cuda)); }

Json gpu_json(const GpuProbe& gpu) {
  Json out{{"name", gpu.name},
           {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
           {"multiprocessors", gpu.multiprocessors > 0 ? Json(gpu.multiprocessors) : Json(nullptr)},
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

std::string doctor_table(const HostProbe& host, const CudaProbe& probe,
                         const std::vector<Missing>& missing) {
  Table table;
  table.row(true, "host",
            fmt::format("{}, {} of memory, {} available", counted(host.cores, "CPU core"),
                        format_bytes(host.memory), format_bytes(host.available)));
  const DriverProbe& driver = probe.driver;
  const std::string version = driver.version.empty() ? "version not told" : driver.version;
  table.row(driver.cuda > 0, "driver",
            driver.cuda > 0
                ? fmt::format("{}, for CUDA up to {}", version, cuda_version_text(driver.cuda))
                : "no NVIDIA driver answers");
  table.row(probe.built, "CUDA",
            probe.built ? fmt::format("backend built with {}", cuda_version_text(probe.toolkit))
                        : "this build has no CUDA backend");
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

std::string doctor_json(const HostProbe& host, const CudaProbe& probe,
                        const std::vector<Missing>& missing) {
  Json out{
      {"host",
       {{"cores", host.cores}, {"memory_bytes", host.memory}, {"available_bytes", host.available}}},
      {"driver", or_null(probe.driver.version)},
      {"driver_cuda", version_or_null(probe.driver.cuda)},
      {"built_with_cuda", version_or_null(probe.toolkit)},
      {"built_with_cudnn_frontend", probe.cudnn_built},
      {"cublaslt", or_null(probe.cublas_lt.version)},
      {"cudnn", or_null(probe.cudnn.version)},
      {"nccl", or_null(probe.nccl.version)},
      {"why_no_gpu", or_null(probe.why_not)},
      {"gpus", Json::array()},
      {"missing", Json::array()}};
  for (const GpuProbe& gpu : probe.driver.gpus) out["gpus"].push_back(gpu_json(gpu));
  for (const Missing& m : missing)
    out["missing"].push_back({{"what", m.what}, {"costs", m.costs}, {"get", m.get}});
  return out.dump(2);
}

}  // namespace snug
