// Snug and a peer on the same GPU, one after another, each from the first allocation to the last.
#include <stdlib.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/median.h"
#include "base/text.h"
#include "hal/cuda/probe.h"
#include "recipe/resolve.h"
#include "search/plan_run.h"
#include "snug/bench.h"
#include "snug/snug.h"
#include "verbs/bench_device.h"
#include "verbs/child_process.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Steps before those that count: kernels are loaded, programs are recorded, and the GPU is as hot
// and its clock as low as in a long training, which an H200 is after 3 s.
int64_t warm_up_steps(const Resolved& run) {
  constexpr int64_t kLeast = 3;
  constexpr double kSeconds = 5;
  return std::max(kLeast, static_cast<int64_t>(std::ceil(kSeconds / plan_run(run).step_seconds)));
}

// What the peer's script trains; another run would be compared with something else.
void require_comparable(const Resolved& run) {
  if (!run.model.config().like_llama()) {
    throw usage_error("--peer torch trains llama, qwen2 and mistral models; '{}' is {}",
                      run.options.model, run.model.config().family);
  }
  const Options& o = run.options;
  const auto require = [](bool same, std::string_view option, const std::string& value,
                          std::string_view peer) {
    if (!same) throw usage_error("--{} {}: the peer trains with {}", option, value, peer);
  };
  require(o.precision == "bf16", "precision", o.precision, "bf16");
  require(o.master == "none", "master", o.master, "none");
  require(o.grad_dtype == "bf16", "grad-dtype", o.grad_dtype, "bf16");
  require(o.state_dtype == "bf16", "state-dtype", o.state_dtype, "bf16");
  require(o.optimizer == "adamw", "optimizer", o.optimizer, "adamw");
  require(o.clip == 1.0, "clip", fmt::format("{}", o.clip), "1");
  require(o.data == "synthetic", "data", o.data, "synthetic data");
  require(o.global_batch == o.batch * o.accum, "global-batch", fmt::format("{}", o.global_batch),
          "whole micro-batches");
}

// A directory with the model's config.json, gone again at the end.
class ConfigDirectory {
 public:
  explicit ConfigDirectory(const Model& model) {
    std::string name = (fs::temp_directory_path() / "snug-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw bad_input("no directory can be made in {}", fs::temp_directory_path().string());
    path_ = name;
    write_file_atomically(path_ / "config.json", model.config_json(Dtype::bf16));
  }
  ~ConfigDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ConfigDirectory(const ConfigDirectory&) = delete;
  ConfigDirectory& operator=(const ConfigDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// A step is the time between two reports: the loop reads a step's loss when it is over, and the
// device goes on meanwhile.
BenchRow train_snug(const Resolved& run, int64_t warm_up) {
  BenchRow row{.name = "snug"};
  const std::optional<int64_t> before = gpu_used_bytes(0);
  std::vector<double> ms;
  Clock::time_point last;
  TrainObserver observer;
  observer.stepped = [&](const StepReport& r) {
    const auto now = Clock::now();
    if (r.step > warm_up)
      ms.push_back(std::chrono::duration<double, std::milli>(now - last).count());
    last = now;
    row.arena_bytes = r.planned_bytes;
    if (r.step == r.steps) row.peak_bytes = gpu_used_bytes(0).value_or(0) - before.value_or(0);
  };
  Options asked = run.asked;
  asked.accum = run.options.accum;  // as the peer does: a search may not split them further
  asked.steps += warm_up;
  if (asked.tune == "auto") asked.tune = "long";
  train(asked, observer);
  const Options& o = run.options;
  row.step_ms = median(std::move(ms));
  row.tokens_per_s = static_cast<double>(o.global_batch * o.seq) / row.step_ms * 1e3;
  return row;
}

std::string row_name(const std::string& mode) {
  if (mode == "eager") return "torch eager";
  if (mode == "compile") return "torch.compile";
  if (mode == "transformers") return "torch.compile HF";
  throw usage_error("--peer torch:{} is not a way that PyTorch is run", mode)
      .hint("torch:eager, torch:compile, torch:transformers, or several with commas between");
}

// The last line that a program wrote, which is what it died of.
std::string last_line(const std::string& text) {
  const std::vector<std::string> lines = split(trim(text), '\n');
  return lines.empty() ? "" : lines.back();
}

std::vector<std::string> peer_command(const Resolved& run, const Peer& peer, const fs::path& config,
                                      const std::string& mode, int64_t warm_up) {
  const Options& o = run.options;
  std::vector<std::string> words{peer.python, peer.script, config.string(), "--name", o.model,
                                 "--mode",    mode};
  const auto add = [&](const char* option, int64_t number) {
    words.insert(words.end(), {option, fmt::format("{}", number)});
  };
  add("--batch", o.batch);
  add("--seq", o.seq);
  add("--accum", o.accum);
  add("--warmup", warm_up);
  add("--steps", o.steps);
  return words;
}

BenchRow train_peer(const Resolved& run, const Peer& peer, const fs::path& config,
                    const std::string& mode, int64_t warm_up) {
  BenchRow row{.name = row_name(mode)};
  const ChildEnded ended = run_child(peer_command(run, peer, config, mode, warm_up));
  if (ended.code != 0) {
    row.failed = last_line(ended.err);
    if (row.failed.empty())
      row.failed = fmt::format("{} ended with code {}", peer.python, ended.code);
    return row;
  }
  const auto result = nlohmann::json::parse(last_line(ended.out), nullptr, /*throws=*/false);
  if (!result.is_object()) {
    row.failed = fmt::format("its last line is no result: {}", last_line(ended.out));
    return row;
  }
  row.step_ms = result.at("step_ms");
  row.tokens_per_s = result.at("tokens_per_s");
  row.peak_bytes = result.at("peak_bytes");
  row.note =
      fmt::format("PyTorch {}, attention: {}", result.at("versions").at("torch").get<std::string>(),
                  result.at("attention").get<std::string>());
  return row;
}

}  // namespace

PeerReport bench_peer(const Options& options, const Peer& peer, const PeerObserver& observer) {
  const Resolved run = resolve(options);
  require_comparable(run);
  PeerReport report{.device = require_gpu(run),
                    .batch = run.options.batch,
                    .seq = run.options.seq,
                    .accum = run.options.accum};
  for (const std::string& mode : peer.modes) row_name(mode);  // throws before anything runs
  if (!fs::exists(peer.script)) throw bad_input("the peer's script {} is not there", peer.script);
  if (observer.started) observer.started(report);
  const ConfigDirectory config(run.model);
  const int64_t warm_up = warm_up_steps(run);
  const auto add = [&](const std::string& name, const std::function<BenchRow()>& measure) {
    if (observer.running) observer.running(name);
    report.rows.push_back(measure());
    if (observer.measured) observer.measured(report.rows.back());
  };
  add("snug", [&] { return train_snug(run, warm_up); });
  for (const std::string& mode : peer.modes)
    add(row_name(mode), [&] { return train_peer(run, peer, config.path(), mode, warm_up); });
  return report;
}

}  // namespace snug
