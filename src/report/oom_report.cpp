#include "report/oom_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/units.h"
#include "report/inspect_report.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

using Log = pytorch::OomLog;
using Kind = pytorch::OomKind;

// What the driver and libraries of one process take, about, where the log does not say.
constexpr int64_t kContext = int64_t{600} << 20;

std::string_view kind_words(Kind kind) {
  constexpr std::array<std::string_view, 8> kWords{
      "the GPU's memory is full: PyTorch's allocator found no room",
      "the GPU's memory is full: cuBLAS found no room for its workspace",
      "the GPU's memory is full: NCCL found no room for its buffers",
      "the GPU's memory is full",
      "the host's memory is full: an allocation on the CPU failed",
      "the host's memory was full: the kernel killed the process",
      "the container or job was over its memory limit: the kernel killed the process",
      "the process was killed by signal 9; most often the host's memory was full"};
  return kWords[static_cast<size_t>(kind)];
}
std::string_view kind_name(Kind kind) {
  constexpr std::array<std::string_view, 8> kNames{"pytorch", "cublas", "nccl",   "cuda",
                                                   "host",    "killed", "cgroup", "signal_nine"};
  return kNames[static_cast<size_t>(kind)];
}
bool is_on_gpu(Kind kind) { return kind <= Kind::cuda; }

// In use by this process, as the log says or as its parts add up.
std::optional<int64_t> process_bytes(const Log& log) {
  if (log.process || !log.allocated) return log.process;
  return *log.allocated + log.unused.value_or(0) + kContext;
}
std::optional<int64_t> others_bytes(const Log& log) {
  const std::optional<int64_t> mine = process_bytes(log);
  if (!log.total || !log.free || !mine) return {};
  return std::max<int64_t>(0, *log.total - *log.free - *mine);
}

// What the process could still have got: of the device, or of what it may use.
std::optional<int64_t> left_for(const Log& log) {
  if (!log.allowed || !log.allocated) return log.free;
  return std::max<int64_t>(0, *log.allowed - *log.allocated - log.unused.value_or(0));
}

// From here on others are worth a word: more where this process's own bytes are only estimated.
bool others_matter(const Log& log) {
  const std::optional<int64_t> others = others_bytes(log);
  const bool their_fault = log.asked && log.free && *log.asked > *log.free;
  return their_fault && others &&
         *others > (log.process ? int64_t{256} << 20 : int64_t{1536} << 20);
}

}  // namespace

std::vector<std::string> meaning_of(const Log& log) {
  std::vector<std::string> out;
  if (!is_on_gpu(log.kind)) {
    if (log.process)
      out.push_back(fmt::format("{} held {} of the host's memory.",
                                log.victim.empty() ? "The process" : log.victim,
                                format_bytes(*log.process)));
    if (log.asked) out.push_back(fmt::format("It asked for {} more.", format_bytes(*log.asked)));
    out.emplace_back(
        log.kind == Kind::cgroup
            ? "The limit is the container's or the job's (--memory, --mem), not the machine's."
            : "It is the memory of the CPU, not of the GPU.");
    return out;
  }
  if (const auto left = left_for(log); log.asked && left && *log.asked > *left)
    out.push_back(fmt::format("It asked for {} and {} were left: {} too few.",
                              format_bytes(*log.asked), format_bytes(*left),
                              format_bytes(*log.asked - *left)));
  if (log.allocated && log.total)
    out.push_back(fmt::format("Tensors had {} of the GPU's {}.", format_bytes(*log.allocated),
                              format_bytes(*log.total)));
  if (log.unused)
    out.push_back(fmt::format("PyTorch held {} that no tensor used: free ranges between tensors.",
                              format_bytes(*log.unused)));
  if (log.allowed)
    out.push_back(fmt::format("The process may use {} of it (set_per_process_memory_fraction).",
                              format_bytes(*log.allowed)));
  if (others_matter(log))
    out.push_back(fmt::format("Other processes held about {} of this GPU.",
                              format_bytes(*others_bytes(log))));
  if (out.empty())
    out.emplace_back("The message has no numbers: the driver or a library asked, not PyTorch.");
  return out;
}

std::vector<std::string> help_for(const Log& log) {
  std::vector<std::string> out;
  if (!is_on_gpu(log.kind)) {
    if (log.kind == Kind::cgroup)
      out.emplace_back("Give the container or job more memory (docker --memory, srun --mem).");
    out.emplace_back("Load weights one file at a time (safetensors, low_cpu_mem_usage=True).");
    out.emplace_back(
        "Use fewer workers of the data loader, and no more pinned memory than needed.");
    out.emplace_back("Keep less offloaded state in host memory, or put it on a disk.");
    return out;
  }
  if (others_matter(log))
    out.emplace_back("End the other processes on this GPU: `nvidia-smi` lists them.");
  const bool fragmented =
      log.asked && log.unused && left_for(log) && *log.unused + *left_for(log) >= *log.asked;
  if (fragmented)
    out.emplace_back(
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: what PyTorch holds unused and what "
        "is free would have been enough.");
  if (log.kind == Kind::cublas || log.kind == Kind::nccl)
    out.emplace_back(
        "Leave PyTorch less (torch.cuda.set_per_process_memory_fraction(0.95)), so that libraries "
        "find room.");
  switch (log.where.phase) {
    case pytorch::Phase::setup:
      out.emplace_back(
          "The weights alone are too large: load them in bfloat16 or 4 bits, or on "
          "several GPUs.");
      break;
    case pytorch::Phase::optimizer:
      out.emplace_back(
          "The optimizer's state comes with its first step: AdamW in 8 bits, its state "
          "on the host, or shared by several GPUs (ZeRO).");
      out.emplace_back("torch.optim.AdamW(..., fused=True) has no temporaries.");
      break;
    default:
      if (log.where.loss)
        out.emplace_back("Compute logits and loss in parts: logits are tokens x vocabulary.");
      out.emplace_back("Halve the batch and accumulate over two.");
      out.emplace_back("Turn checkpointing on: model.gradient_checkpointing_enable().");
      if (!log.where.loss)
        out.emplace_back("Compute logits and loss in parts where the vocabulary is large.");
  }
  return out;
}

std::string oom_table(const OomFacts& facts, const Paint& paint) {
  const Log& log = facts.log;
  std::string out = paint.bad(kind_words(log.kind)) + "\n";
  out +=
      fmt::format("  {}, line {}{}{}\n", without_beginning(facts.file, 50), format_exact(log.line),
                  log.times > 1 ? fmt::format(", and {} more like it", log.times - 1) : "",
                  log.through.empty() ? "" : ", through " + log.through);
  const std::string_view phase = phase_words(log.where.phase);
  if (!phase.empty())
    out += fmt::format("  in {}{}\n", phase,
                       log.where.label.empty() ? "" : ", at " + without_end(log.where.label, 70));
  for (size_t i = 1; i < log.frames.size(); ++i)
    out += fmt::format("    called from {}\n", without_end(log.frames[i], 70));
  out += "\n" + paint.title("what it means") + "\n";
  for (const std::string& sentence : meaning_of(log)) out += "  " + wrap(sentence, 2);
  out += "\n" + paint.title("what would help") + "\n";
  for (const std::string& sentence : help_for(log)) out += "  " + wrap(sentence, 2);
  if (facts.plan)
    out += "\n" + summary_text(facts.plan->memory, facts.plan->facts, paint) +
           changes_text(facts.plan->memory, facts.plan->facts, paint);
  return out;
}

std::string oom_json(const OomFacts& facts) {
  const Log& log = facts.log;
  Json out{{"file", facts.file},
           {"line", log.line},
           {"kind", kind_name(log.kind)},
           {"text", log.text},
           {"times", log.times},
           {"through", or_null(log.through)},
           {"gpu", or_null(log.gpu)},
           {"asked_bytes", or_null(log.asked)},
           {"total_bytes", or_null(log.total)},
           {"free_bytes", or_null(log.free)},
           {"process_bytes", or_null(log.process)},
           {"allocated_bytes", or_null(log.allocated)},
           {"unused_bytes", or_null(log.unused)},
           {"allowed_bytes", or_null(log.allowed)},
           {"others_bytes", or_null(others_bytes(log))},
           {"phase", or_null(std::string(phase_words(log.where.phase)))},
           {"at", or_null(log.where.label)},
           {"frames", log.frames},
           {"meaning", meaning_of(log)},
           {"help", help_for(log)},
           {"plan", nullptr}};
  if (facts.plan) out["plan"] = plan_json(facts.plan->memory, facts.plan->facts);
  return out.dump(2);
}

}  // namespace snug
