#include "measure/peer.h"

#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "measure/child_process.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

void require_comparable(const Resolved& run) {
  if (!run.model.config().like_llama) {
    throw usage_error("--peer torch trains llama, qwen2 and mistral models; '{}' is {}",
                      run.options.model, run.model.config().family);
  }
  const Options& o = run.options;
  const auto require = [](bool same, std::string_view option, const std::string& value,
                          std::string_view peer) {
    if (!same) throw usage_error("--{} {}: the peer trains with {}", option, value, peer);
  };
  const auto require_is = [&](auto Options::*member, const auto& peer) {
    require(o.*member == peer, option_of(member).key, print_setting(o.*member),
            print_setting(peer));
  };
  require_is(&Options::precision, ComputeType::bf16);
  require_is(&Options::master, Master::none);
  require_is(&Options::grad_dtype, ComputeType::bf16);
  require_is(&Options::state_dtype, StateType::bf16);
  require_is(&Options::optimizer, OptimizerKind::adamw);
  require(o.clip == 1.0, "clip", fmt::format("{}", o.clip), "1");
  require(o.data == "synthetic", "data", o.data, "synthetic data");
  require(o.global_batch == o.batch * o.accum, "global-batch", fmt::format("{}", o.global_batch),
          "whole micro-batches");
}

ConfigDirectory::ConfigDirectory(const Model& model) {
  std::string name = (fs::temp_directory_path() / "snug-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw bad_input("no directory can be made in {}", fs::temp_directory_path().string());
  path_ = name;
  write_file_atomically(path_ / "config.json", model.config_json(Dtype::bf16));
}

ConfigDirectory::~ConfigDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string row_name(const std::string& mode) {
  if (mode == "eager") return "torch eager";
  if (mode == "compile") return "torch.compile";
  if (mode == "transformers") return "torch.compile HF";
  throw usage_error("--peer torch:{} is not a way that PyTorch is run", mode)
      .hint("torch:eager, torch:compile, torch:transformers, or several with commas between");
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

}  // namespace snug
