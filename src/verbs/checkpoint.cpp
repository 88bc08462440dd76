// `snug checkpoint`: what a run has saved, whether it is whole, and the model in it.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/output_directory.h"
#include "checkpoint/resume.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/run_state.h"
#include "checkpoint/trained_output.h"
#include "compile/compile.h"
#include "formats/peft_config.h"
#include "recipe/resolve.h"
#include "report/layout.h"
#include "snug/snug.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// A checkpoint itself, or all of a run's.
std::vector<fs::path> checkpoints_of(const fs::path& path) {
  std::error_code failure;
  if (fs::exists(path / kManifestFile, failure)) return {path};
  std::vector<fs::path> found = checkpoints_in(path);
  if (found.empty())
    throw bad_input("{} holds no checkpoint", path.string())
        .hint("give the --out directory of a run, or one of its step-... folders");
  return found;
}

std::string recipe_of(const Options& o) {
  return fmt::format("{}, {} sequences of {}, {}, {}", fs::path(o.model).filename().string(),
                     o.global_batch, o.seq, print_setting(o.precision), print_setting(o.optimizer));
}

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure))
    bytes += static_cast<int64_t>(entry.file_size(failure));
  return bytes;
}

CheckpointLine line_of(const fs::path& path, bool verify) {
  CheckpointLine line{.path = path.string(),
                      .name = path.filename().string(),
                      .step = step_of_checkpoint(path.filename().string()).value_or(0),
                      .bytes = bytes_in(path)};
  try {
    const RunManifest manifest = read_manifest(path);
    line.run = manifest.run;
    line.step = manifest.step;
    line.steps = manifest.settled.steps;
    line.recipe = recipe_of(manifest.settled);
    const RunStateReader state(path, manifest);
    if (verify) state.verify();
    line.verified = verify;
  } catch (const Error& e) {
    line.wrong = e.what();
  }
  return line;
}

// The module of the run, for what its values are called in the model's own files.
Module module_of(const Resolved& run) {
  return compile(run.model.config().name, run.model.forward(run.build), run.recipe);
}

Resolved resolved(const fs::path& checkpoint, const RunManifest& manifest) {
  Options o = on_ranks(manifest.settled, 1);
  o.model = model_of_run(manifest, checkpoint);
  o.init = StartFrom::scratch;
  o.adapter = "";  // it began with it
  o.budget = o.host_budget = o.disk_budget = {};
  o.gpu.clear();
  return resolve(std::move(o));
}

// A value's, from its first element on.
using SavedValue = std::map<int64_t, const SavedPiece*>;

std::map<std::string, SavedValue> values_of(const RunManifest& manifest) {
  std::map<std::string, SavedValue> values;
  for (const SavedPiece& piece : manifest.pieces) values[piece.name][piece.first] = &piece;
  return values;
}

Type whole_type(const SavedValue& pieces) {
  return {pieces.begin()->second->type.dtype, pieces.begin()->second->whole()};
}

bool is_cut_alike(const SavedValue& a, const SavedValue& b) {
  return std::ranges::equal(a, b, {}, &SavedValue::value_type::first,
                            &SavedValue::value_type::first);
}

bool is_same(const SavedValue& a, const SavedValue& b) {
  return std::ranges::equal(
      a, b, [](const auto& x, const auto& y) { return x.second->checksum == y.second->checksum; });
}

}  // namespace

std::vector<CheckpointLine> checkpoints(const std::string& path, bool verify,
                                        const std::function<void(const std::string&)>& doing) {
  std::vector<CheckpointLine> lines;
  for (const fs::path& checkpoint : checkpoints_of(path)) {
    if (doing) doing("reading " + checkpoint.string());
    lines.push_back(line_of(checkpoint, verify));
    lines.back().latest = is_latest(checkpoint);
  }
  return lines;
}

void export_checkpoint(const std::string& path, const std::string& directory) {
  const fs::path checkpoint = find_checkpoint(path);
  const RunManifest manifest = read_manifest(checkpoint);
  const Resolved run = resolved(checkpoint, manifest);
  const Module module = module_of(run);
  std::error_code ignored;
  if (fs::exists(fs::path(directory) / kConfigFile, ignored) ||
      fs::exists(fs::path(directory) / kAdapterConfigFile, ignored) ||
      !checkpoints_in(directory).empty())
    throw usage_error("--export {}: it holds a model or a run", directory)
        .hint("give a directory of its own");
  const OutputDirectory out(directory);
  out.require_space(saved_bytes(module, trained_part(run.recipe)));
  const RunStateReader state(checkpoint, manifest);
  save_trained(run, module, state.pieces_of(module), to_toml(run, run.recipe.recompute), directory);
}

std::vector<std::string> diff_checkpoints(const std::string& first, const std::string& second) {
  const RunManifest a = read_manifest(find_checkpoint(first));
  const RunManifest b = read_manifest(find_checkpoint(second));
  std::vector<std::string> lines;
  const auto compare = [&](const std::string& what, const std::string& x, const std::string& y) {
    if (x != y) lines.push_back(fmt::format("{}: {} -> {}", what, x, y));
  };
  compare("run", a.run, b.run);
  compare("step", fmt::format("{}", a.step), fmt::format("{}", b.step));
  compare("position", fmt::format("{}", a.position), fmt::format("{}", b.position));
  compare("device", a.device, b.device);
  compare("data", a.data.checksum, b.data.checksum);
  const Json options = options_json(a.settled), others = options_json(b.settled);
  for (const auto& [key, value] : options.items())
    compare("--" + key, typed_text(value), typed_text(others.at(key)));
  int64_t same = 0, other = 0, unknown = 0;
  const std::map<std::string, SavedValue> first_values = values_of(a), second_values = values_of(b);
  for (const auto& [name, pieces] : first_values) {
    const auto found = second_values.find(name);
    if (found == second_values.end()) {
      lines.push_back(fmt::format("value {}: only in the first", name));
    } else if (whole_type(found->second) != whole_type(pieces)) {
      compare("value " + name, whole_type(pieces).text(), whole_type(found->second).text());
    } else if (!is_cut_alike(pieces, found->second)) {
      ++unknown;
    } else {
      ++(is_same(pieces, found->second) ? same : other);
    }
  }
  for (const auto& [name, pieces] : second_values)
    if (!first_values.contains(name))
      lines.push_back(fmt::format("value {}: only in the second", name));
  lines.push_back(
      fmt::format("{} have the same bytes, {} other ones", counted(same, "value"), other));
  if (unknown > 0)
    lines.back() += fmt::format("; {} are cut into other pieces, and not compared", unknown);
  return lines;
}

}  // namespace snug
