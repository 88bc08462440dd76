#include "report/gpus_report.h"

#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr size_t kClouds = kColumns - 67;  // what the columns before them leave

std::string teraflops(double flops) {
  return flops > 0 ? fmt::format("{:.4g}", flops / 1e12) : std::string("-");
}

}  // namespace

std::string gpus_table(std::span<const GpuLine> gpus) {
  std::string out = fmt::format("{:<18}{:>10}{:>9}{:>7}{:>7}{:>7}{:>7}  {}\n", "name", "memory",
                                "compute", "fp32", "tf32", "bf16", "GB/s", "in clouds");
  for (const GpuLine& g : gpus) {
    const std::string line = fmt::format(
        "{:<18}{:>10}{:>9}{:>7}{:>7}{:>7}{:>7.0f}  {}", g.name, format_bytes(g.memory_bytes),
        g.capability, teraflops(g.fp32_flops), teraflops(g.tf32_flops), teraflops(g.bf16_flops),
        g.bytes_per_s / 1e9, without_end(join(g.clouds, ", "), kClouds));
    out += std::string(trim_end(line)) + "\n";
  }
  return out +
         "\nfp32, tf32 and bf16 in TFLOP/s: dense, as data sheets say. --gpu takes a driver's name "
         "(\"RTX 4090\")\nand a cloud's machine of any size (g6.xlarge) too.\n";
}

std::string gpus_json(std::span<const GpuLine> gpus) {
  Json out = Json::array();
  for (const GpuLine& g : gpus) {
    out.push_back({{"name", g.name},
                   {"title", g.title},
                   {"clouds", g.clouds},
                   {"compute_capability", g.capability},
                   {"memory_bytes", g.memory_bytes},
                   {"fp32_flops", g.fp32_flops},
                   {"tf32_flops", g.tf32_flops},
                   {"bf16_flops", g.bf16_flops},
                   {"fp16_flops", g.fp16_flops},
                   {"bytes_per_s", g.bytes_per_s}});
  }
  return out.dump(2);
}

}  // namespace snug
