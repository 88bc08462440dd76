#include "pytorch/oom_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "formats/file_reader.h"

namespace snug::pytorch {
namespace {

constexpr size_t kLongestLine = 1 << 14;   // the rest of a longer one is not looked at
constexpr size_t kDeepestTraceback = 256;  // of one traceback
constexpr size_t kFollowing = 6;           // lines that may belong to a message

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// --- numbers -------------------------------------------------------------------------------------

// "2.00 GiB", "456kB", "1024": the kernel's kB is 1,024 bytes as well.
std::optional<int64_t> bytes_at(std::string_view text) {
  text = trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) return {};
  const std::string_view unit = trim(text.substr(static_cast<size_t>(end - text.data())));
  constexpr std::array<std::pair<std::string_view, int>, 9> kUnits{{{"KiB", 10},
                                                                    {"MiB", 20},
                                                                    {"GiB", 30},
                                                                    {"TiB", 40},
                                                                    {"kB", 10},
                                                                    {"KB", 10},
                                                                    {"MB", 20},
                                                                    {"GB", 30},
                                                                    {"bytes", 0}}};
  int shift = 0;
  for (const auto& [name, bits] : kUnits)
    if (unit.starts_with(name)) shift = bits;
  const double bytes = std::ldexp(number, shift);
  if (!(bytes < 0x1p60)) return {};
  return static_cast<int64_t>(bytes);
}
std::optional<int64_t> bytes_after(std::string_view text, std::string_view phrase) {
  const size_t at = text.find(phrase);
  return at == text.npos ? std::nullopt : bytes_at(text.substr(at + phrase.size()));
}
// The two words before it: a number and its unit.
std::optional<int64_t> bytes_before(std::string_view text, std::string_view phrase) {
  const size_t at = text.find(phrase);
  if (at == text.npos) return {};
  const std::string_view head = trim_end(text.substr(0, at));
  const size_t unit = head.rfind(' ');
  if (unit == head.npos || unit == 0) return {};
  const size_t number = head.rfind(' ', unit - 1);
  return bytes_at(number == head.npos ? head : head.substr(number + 1));
}
template <typename T>
std::optional<T> first_of(std::initializer_list<std::optional<T>> all) {
  for (const std::optional<T>& one : all)
    if (one) return one;
  return {};
}
std::optional<int64_t> whole_after(std::string_view text, std::string_view phrase) {
  const size_t at = text.find(phrase);
  int64_t number = 0;
  if (at == text.npos) return {};
  const char* from = text.data() + at + phrase.size();
  if (std::from_chars(from, text.data() + text.size(), number).ec != std::errc()) return {};
  return number;
}

// --- kinds ---------------------------------------------------------------------------------------

// The most telling first: what has numbers before what only says that a process is gone.
std::optional<OomKind> kind_of(std::string_view line) {
  const bool out =
      holds(line, "out of memory") || holds(line, "Out of memory") || holds(line, "OutOfMemory");
  if (holds(line, "emory cgroup out of memory") || holds(line, "CONSTRAINT_MEMCG") ||
      holds(line, "oom_kill event") || holds(line, "OOMKilled"))
    return OomKind::cgroup;
  if (holds(line, "Out of memory: Kill") || holds(line, "oom-kill:")) return OomKind::killed;
  if (holds(line, "Tried to allocate") && (out || holds(line, "capac"))) return OomKind::pytorch;
  if (holds(line, "CUBLAS_STATUS_ALLOC_FAILED") ||
      (holds(line, "CUBLAS_STATUS_NOT_INITIALIZED") && holds(line, "cublasCreate")))
    return OomKind::cublas;
  if ((holds(line, "NCCL") || holds(line, "nccl")) && (out || holds(line, "CUDA calloc")))
    return OomKind::nccl;
  if (holds(line, "DefaultCPUAllocator") || holds(line, "std::bad_alloc") ||
      holds(line, "ArrayMemoryError") || line.starts_with("MemoryError"))
    return OomKind::host;
  if (out && (holds(line, "CUDA") || holds(line, "cuda") || holds(line, "HIP")))
    return OomKind::cuda;
  if (holds(line, "cudaErrorMemoryAllocation")) return OomKind::cuda;
  if (holds(line, "exit code 137") || holds(line, "exitcode: -9") ||
      holds(line, "exitcode  : -9") || holds(line, "return code = -9") ||
      holds(line, "Signal 9 (SIGKILL)") || trim(line) == "Killed")
    return OomKind::signal_nine;
  return {};
}

void read_numbers(std::string_view text, OomLog& log) {
  log.asked =
      first_of({bytes_after(text, "Tried to allocate "), bytes_after(text, "tried to allocate "),
                bytes_after(text, "Unable to allocate ")});
  log.gpu = first_of({whole_after(text, "GPU "), whole_after(text, "HIP device ")});
  log.total = first_of({bytes_after(text, "total capacity of "),
                        bytes_after(text, "total capacty of "),  // as PyTorch 2.1 spells it
                        bytes_before(text, " total capacity")});
  log.free = first_of({bytes_before(text, " is free"), bytes_before(text, " free;")});
  log.process = bytes_after(text, "this process has ");
  log.allowed = bytes_before(text, " allowed;");
  log.allocated = first_of(
      {bytes_before(text, " is allocated by PyTorch"), bytes_before(text, " already allocated")});
  log.unused = bytes_before(text, " is reserved by PyTorch but unallocated");
  const std::optional<int64_t> reserved = first_of(
      {bytes_before(text, " reserved in total by PyTorch"), bytes_before(text, " cached)")});
  if (!log.unused && reserved && log.allocated)
    log.unused = std::max<int64_t>(0, *reserved - *log.allocated);
  if (const auto resident = bytes_after(text, "anon-rss:")) log.process = resident;
  const size_t name = text.find(" (", std::min(text.find("Killed process"), text.size()));
  const size_t end = name == text.npos ? text.npos : text.find(')', name);
  if (end != text.npos) log.victim = printable(text.substr(name + 2, end - name - 2));
}

// `  File "train.py", line 12, in main`, after whatever a launcher puts before it.
std::optional<Frame> frame_of(std::string_view line) {
  const size_t file = line.find("File \"");
  if (file == line.npos) return {};
  const size_t end = line.find("\", line ", file + 6);
  if (end == line.npos) return {};
  Frame frame{.file = printable(line.substr(file + 6, end - file - 6))};
  frame.line = whole_after(line.substr(end), "\", line ").value_or(0);
  const size_t in = line.find(", in ", end);
  if (in != line.npos) frame.name = printable(trim(line.substr(in + 5)));
  return frame;
}

// --- the log -------------------------------------------------------------------------------------

class LogReader {
 public:
  void end_line() { ++number_; }
  // A line, or what a progress bar wrote of one.
  void look_at(std::string_view text) {
    if (following_ > 0) {
      --following_;
      message_ += " " + without_box(text);
      if (following_ == 0) finish();
    }
    if (holds(text, "Traceback (most recent call last)")) frames_.clear();
    if (const auto frame = frame_of(text)) {
      if (frames_.size() == kDeepestTraceback) frames_.erase(frames_.begin());
      frames_.push_back(*frame);
      if (through_.empty()) through_ = launcher_of(frame->file);
    }
    if (const auto kind = kind_of(text)) found(*kind, text);
  }

  std::optional<OomLog> result() && {
    finish();
    if (log_) log_->through = through_;
    return std::move(log_);
  }

 private:
  // Of the rich tracebacks that some tools print.
  static std::string without_box(std::string_view text) {
    std::string plain(text);
    for (const std::string_view edge : {"│", "|"})
      for (size_t at = plain.find(edge); at != plain.npos; at = plain.find(edge))
        plain.replace(at, edge.size(), " ");
    return std::string(trim(plain));
  }
  static std::string launcher_of(std::string_view file) {
    if (holds(file, "/deepspeed/")) return "DeepSpeed";
    if (holds(file, "/accelerate/")) return "Accelerate";
    if (holds(file, "/lightning/") || holds(file, "/pytorch_lightning/")) return "Lightning";
    return "";
  }

  void found(OomKind kind, std::string_view text) {
    if (log_ && log_->kind < kind) return;
    if (log_ && log_->kind == kind) {
      ++log_->times;
      return;
    }
    finish();
    log_ = OomLog{
        .kind = kind, .line = number_, .text = printable(trim(text).substr(0, 400)), .times = 1};
    place();
    message_ = without_box(text);
    following_ = kFollowing;
  }
  // Where it was: the traceback above it, innermost first.
  void place() {
    Snapshot one;
    one.stacks.push_back({});
    for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
      one.stacks.back().push_back(static_cast<uint32_t>(one.frames.size()));
      one.frames.push_back(*frame);
      if (frame->file.find("/torch/") == std::string::npos && log_->frames.size() < 4)
        log_->frames.push_back(frame_text(*frame));
    }
    log_->where = facts_of_stacks(one).back();
  }
  void finish() {
    following_ = 0;
    if (log_ && !message_.empty()) read_numbers(message_, *log_);
    message_.clear();
  }

  int64_t number_ = 1;
  size_t following_ = 0;
  std::string message_, through_;
  std::vector<Frame> frames_;
  std::optional<OomLog> log_;
};

}  // namespace

std::optional<OomLog> read_oom_log(const std::filesystem::path& path) {
  const FileReader file(path);
  LogReader reader;
  std::string line;
  file.each_block(0, [&](int64_t, std::span<const std::byte> block) {
    for (const std::byte b : block) {
      const char c = static_cast<char>(b);
      if (c == '\n' || c == '\r') {
        if (!line.empty()) reader.look_at(line);
        if (c == '\n') reader.end_line();
        line.clear();
      } else if (line.size() < kLongestLine) {
        line.push_back(c);
      }
    }
    return true;
  });
  reader.look_at(line);
  return std::move(reader).result();
}

}  // namespace snug::pytorch
