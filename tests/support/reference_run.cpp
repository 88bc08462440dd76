#include "support/reference_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "formats/peft_config.h"
#include "passes/shared_names.h"
#include "recipe/resolve.h"
#include "runtime/testing/host_values.h"

namespace snug {
namespace {

constexpr std::string_view kGrad = "grad.";

BuildOptions shaped(BuildOptions build, const Shape& shape) {
  build.batch = shape[0];
  build.seq = shape[1];
  return build;
}

constexpr std::string_view kLora = "lora_";

Recipe with_adapter(Recipe recipe, const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / kAdapterConfigFile))
    recipe.adapters = adapters_in(directory);
  return recipe;
}

double square(double x) { return x * x; }

ReferenceRun::Difference distance(std::string tensor, std::span<const float> got,
                                  std::span<const float> want) {
  double difference = 0, reference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += square(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    reference += square(want[i]);
  }
  return {std::move(tensor), std::sqrt(difference), std::sqrt(reference)};
}

}  // namespace

ReferenceRun::ReferenceRun(const std::string& family, BuildOptions build, const Recipe& recipe,
                           const ExecutorOptions& options, Device* device)
    : directory_(tests_dir() + "/parity/" + family),
      base_(tests_dir() + "/parity/" + family.substr(family.starts_with(kLora) ? kLora.size() : 0)),
      part_(base_ == directory_ ? Part::model : Part::adapter),
      reference_(directory_ + "/reference.safetensors"),
      shape_(reference_.find("tokens")->shape),
      run_(base_, shaped(build, shape_), with_adapter(recipe, directory_), options, device) {
  run_.load(base_);
  if (part_ == Part::adapter) run_.load_adapter(directory_);
  run_.feed(0);
}

std::vector<float> ReferenceRun::stored(const std::string& tensor) const {
  const TensorEntry* entry = reference_.find(tensor);
  if (entry == nullptr) throw internal_error("the reference has no tensor '{}'", tensor);
  std::vector<float> out(static_cast<size_t>(entry->bytes) / sizeof(float));
  entry->read(0, std::as_writable_bytes(std::span(out)));
  return out;
}

// Row `row` of a stored [steps, B, T] tensor, or all of a [B, T] one, into a shared input.
void ReferenceRun::feed(const std::string& tensor, std::string_view input, int64_t row) {
  const ValueId to = executor().shared(input);
  std::vector<std::byte> bytes(static_cast<size_t>(executor().module()[to].type.bytes()));
  reference_.find(tensor)->read(row * static_cast<int64_t>(bytes.size()), bytes);
  executor().write(to, bytes);
}
void ReferenceRun::feed_batch() {
  feed("tokens", "tokens", 0);
  feed("targets", "targets", 0);
}
void ReferenceRun::feed_curve(int64_t step) {
  feed("curve.tokens", "tokens", step);
  feed("curve.targets", "targets", step);
}

double ReferenceRun::mean_loss() const {
  Executor& executor = run_.executor();
  return executor.read_scalar<float>(executor.shared(shared_names::kLoss)) /
         static_cast<double>(shape_.elements());
}
double ReferenceRun::grad_norm() const {
  Executor& executor = run_.executor();
  return executor.read_scalar<float>(executor.shared(shared_names::kGradNorm));
}

double ReferenceRun::global_norm() const {
  double sum = 0;
  for (const TensorEntry& entry : reference_.tensors()) {
    if (!entry.name.starts_with(kGrad)) continue;
    for (const float g : stored(entry.name)) sum += square(g);
  }
  return std::sqrt(sum);
}

std::vector<ReferenceRun::Difference> ReferenceRun::gradient_differences() {
  std::vector<Difference> out;
  std::vector<float> got;  // of a tensor: its pieces so far
  HostValues host(executor());
  for (const SavedTensor& tensor : saved_tensors(executor().module(), part_)) {
    const std::string name = std::string(kGrad) + tensor.name;
    if (reference_.find(name) == nullptr) {
      ADD_FAILURE() << "PyTorch has no gradient of " << tensor.name;
      continue;
    }
    const std::vector<float> want = stored(name);
    const auto piece = host.look<float>(executor().module().gradient_of(tensor.value))
                           .subspan(static_cast<size_t>(tensor.offset) / sizeof(float),
                                    static_cast<size_t>(tensor.bytes) / sizeof(float));
    got.insert(got.end(), piece.begin(), piece.end());
    if (got.size() < want.size()) continue;
    out.push_back(distance(tensor.name, got, want));
    got.clear();
  }
  const auto all = std::ranges::count_if(
      reference_.tensors(), [](const TensorEntry& e) { return e.name.starts_with(kGrad); });
  EXPECT_EQ(out.size(), static_cast<size_t>(all)) << "every gradient that PyTorch has was compared";
  return out;
}

}  // namespace snug
