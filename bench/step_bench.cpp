// One training step on the CPU, in turns with PyTorch eager where bench/torch_train.py can run
// (SNUG_TORCH says how): same model, same threads, medians of alternating steps. Also where the
// time of a step goes, by op kind.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "hal/cpu/cpu_device.h"
#include "recipe/resolve.h"
#include "runtime/initialise.h"
#include "search/plan_run.h"
#include "snug/set_option.h"
#include "train/feeder.h"

namespace snug {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// A child process that answers each line with a line of JSON.
class Peer {
 public:
  explicit Peer(const std::string& command) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) throw internal_error("no pipe to the peer");
    child_ = fork();
    if (child_ == 0) {
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      for (const int end : {to[0], to[1], from[0], from[1]}) close(end);
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    to_ = fdopen(to[1], "w");
    from_ = fdopen(from[0], "r");
    ready = answer();
  }
  ~Peer() {
    std::fclose(to_);
    std::fclose(from_);
    waitpid(child_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  nlohmann::json ask(const char* line) {
    fmt::print(to_, "{}\n", line);
    std::fflush(to_);
    return answer();
  }
  nlohmann::json ready;

 private:
  nlohmann::json answer() {
    char line[4096];
    if (std::fgets(line, sizeof line, from_) == nullptr)
      throw internal_error("the peer stopped answering");
    return nlohmann::json::parse(line);
  }
  pid_t child_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

class Stepper {
 public:
  explicit Stepper(const Options& options)
      : planned_(plan_run(resolve(options))),
        samples_(Samples::for_training(planned_.run)),
        executor_(planned_.plan.module, *device_),
        feeder_(executor_, planned_.run, samples_) {
    initialise(executor_, 1);
  }

  double step() {
    const auto start = Clock::now();
    executor_.run_step([&](const Program& program) { feeder_.before(program, steps_); });
    ++steps_;
    return milliseconds_since(start);
  }

  // Milliseconds of one step by op kind, largest first.
  std::vector<std::pair<double, std::string>> profile() {
    std::map<std::string, double> by_kind;
    auto last = Clock::now();
    executor_.observe = [&](size_t program, size_t op) {
      by_kind[std::string(planned_.plan.module.programs[program].ops[op].def->kind)] +=
          milliseconds_since(last);
      last = Clock::now();
    };
    executor_.run_step([&](const Program& program) {
      feeder_.before(program, steps_);
      last = Clock::now();
    });
    executor_.observe = nullptr;
    std::vector<std::pair<double, std::string>> out;
    for (const auto& [kind, ms] : by_kind) out.emplace_back(ms, kind);
    std::sort(out.rbegin(), out.rend());
    return out;
  }

  int64_t tokens() const { return feeder_.tokens_per_step(); }
  const Executor& executor() const { return executor_; }

 private:
  PlannedRun planned_;
  Samples samples_;
  std::unique_ptr<Device> device_ = cpu_device();
  Executor executor_;
  Feeder feeder_;
  int64_t steps_ = 0;
};

void print_row(const char* who, double ms, int64_t tokens, int64_t bytes, const char* bytes_are) {
  fmt::print("  {:<16}{:>10.1f} ms{:>12.0f} tokens/s{:>14}  {}\n", who, ms,
             static_cast<double>(tokens) / ms * 1e3, format_bytes(bytes), bytes_are);
}

void run(const std::string& config) {
  constexpr int kRounds = 15;
  Options options;
  options.model = config;
  set_option(options, "device", "cpu");
  options.batch = 8;
  options.seq = 256;
  Stepper snug(options);
  std::optional<Peer> torch;
  if (const char* command = std::getenv("SNUG_TORCH")) {
    torch.emplace(
        fmt::format("{} {} --batch {} --seq {}", command, config, options.batch, options.seq));
  }
  for (int i = 0; i < 2; ++i) snug.step();

  std::vector<double> ours, theirs;
  int64_t their_peak = 0;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(snug.step());
    if (!torch) continue;
    const nlohmann::json answer = torch->ask("step");
    theirs.push_back(answer.at("ms"));
    their_peak = answer.at("peak_rss_bytes");
  }
  fmt::print("12-layer, 384-wide llama, batch 8 x 256, fp32, median of {} alternating steps\n",
             kRounds);
  print_row("snug", median(ours), snug.tokens(), snug.executor().measured_bytes(),
            "arena, planned = measured");
  if (torch) {
    const int64_t before = torch->ready.at("rss_before_bytes");
    print_row("PyTorch eager", median(theirs), snug.tokens(), their_peak - before,
              "peak resident beyond the start");
    fmt::print("  snug / PyTorch {}: {:.2f}x the tokens per second on {} threads\n",
               torch->ready.at("torch").get<std::string>(), median(theirs) / median(ours),
               torch->ready.at("threads").get<int>());
  } else {
    fmt::print("  (PyTorch is not importable here: no comparison)\n");
  }
  fmt::print("\nwhere a step's time goes\n");
  for (const auto& [ms, kind] : snug.profile()) fmt::print("  {:<32}{:>8.1f} ms\n", kind, ms);
}

}  // namespace
}  // namespace snug

int main() {
  try {
    snug::run(SNUG_BENCH_DIR "/llama-12x384.json");
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench: {}\n", error.what());
    return 1;
  }
}
