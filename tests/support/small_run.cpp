#include "support/small_run.h"

#include "base/rng.h"
#include "passes/passes.h"
#include "runtime/initialise.h"

namespace snug {

std::string tests_dir() { return SNUG_TESTS_DIR; }

SmallRun::SmallRun(const std::string& model, const BuildOptions& build, Recipe recipe,
                   ExecutorOptions options)
    : model_(Model::load(model)),
      plan_(make_plan("small", model_.forward(build), recipe)),
      recipe_(recipe) {
  executor_ = std::make_unique<Executor>(plan_.module, *device_, options);
  initialise(*executor_, /*seed=*/5);
  derive(*executor_);
  targets_ = module()[executor_->shared("targets")].type.shape.elements();
}

void SmallRun::feed(int64_t micro_batch) {
  const auto V = static_cast<uint64_t>(model_.config().V);
  const Key key = random_key(11, static_cast<uint64_t>(micro_batch), hash_name("tokens"));
  auto fill = [&](std::string_view name, uint64_t stream) {
    const auto out = executor_->values<int32_t>(executor_->shared(name));
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int32_t>(philox(key, i, stream)[0] % V);
  };
  if (module().find_shared("tokens").valid()) fill("tokens", 0);
  if (const ValueId features = module().find_shared("features"); features.valid()) {
    const auto out = executor_->values<float>(features);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(normal_pair(key, i)[0]);
  }
  fill("targets", 1);
  auto set = [&](std::string_view name, int64_t value) {
    const ValueId id = module().find_shared(name);
    if (id.valid()) executor_->scalar<int64_t>(id) = value;
  };
  set("sample", micro_batch * module()[executor_->shared("targets")].type.shape[0]);
  set("seed", 3);
  set("step", micro_batch / recipe_.accum);
  executor_->scalar<float>(executor_->shared(shared_names::kLossGrad)) =
      1.0F / static_cast<float>(targets_ * recipe_.accum);
  executor_->scalar<float>(executor_->shared(shared_names::kLearningRate)) = lr;
}

float SmallRun::mean_loss(int64_t micro_batches) const {
  return executor_->scalar<float>(executor_->shared(shared_names::kLoss)) /
         static_cast<float>(targets_ * micro_batches);
}

float SmallRun::step() {
  executor_->run_step([&](std::string_view program) {
    if (program != "update") feed(fed_++);
  });
  return mean_loss(recipe_.accum);
}

float SmallRun::evaluate() {
  executor_->run("eval");
  return mean_loss(1);
}

}  // namespace snug
