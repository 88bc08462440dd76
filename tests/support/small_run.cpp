#include "support/small_run.h"

#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "compile/compile.h"
#include "formats/peft_config.h"
#include "passes/shared_names.h"
#include "runtime/initialise.h"
#include "runtime/testing/host_values.h"

namespace snug {

std::string tests_dir() { return SNUG_TESTS_DIR; }

namespace {

Recipe for_device(Recipe recipe, const Device& device) {
  if (device.kind() == DeviceKind::cuda) recipe.backend = Backend::cuda;
  return recipe;
}

// What passes choose for a backend they choose for the recipe's; what kernels need is the device's.
Plan plan_for(const Device& device, const ForwardBuilder& forward, const Recipe& recipe) {
  Recipe here = recipe;
  here.backend = device.kind() == DeviceKind::cuda ? Backend::cuda : Backend::cpu;
  Module module = compile("small", forward, recipe, CompilePhase::offload);
  continue_compile(module, here, CompilePhase::lay_out);
  return make_plan(std::move(module), here.backend);
}

// Samples of 1 to 8 tokens.
void fill_starts(std::span<int32_t> starts, int64_t T, Key key) {
  int64_t start = 0, end = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t t = static_cast<int64_t>(i) % T;
    if (t == 0 || t == end) {
      start = t;
      end = t + 1 + static_cast<int64_t>(philox(key, i, 2)[0] % 8);
    }
    starts[i] = static_cast<int32_t>(start);
  }
}

}  // namespace

SmallRun::SmallRun(const std::string& model, const BuildOptions& build, Recipe recipe,
                   const ExecutorOptions& options, Device* device)
    : model_(Model::load(model)),
      own_device_(device == nullptr ? cpu_device() : nullptr),
      device_(device == nullptr ? *own_device_ : *device),
      recipe_(for_device(std::move(recipe), device_)),
      plan_(plan_for(device_, model_.forward(build), recipe_)) {
  executor_ = std::make_unique<Executor>(plan_.module, device_, options);
  initialise(*executor_, /*seed=*/5);
  derive(*executor_);
  batch_ = build.batch;
  targets_ = batch_ * (model_.config().transformer ? build.seq : 1);
}

void SmallRun::load(const std::string& directory) {
  ValuePieces pieces(*executor_);
  load_model(module(), into(pieces), CheckpointReader(directory),
             [&](std::string_view name) { return model_.spellings(name); });
  derive(*executor_);
}

void SmallRun::load_adapter(const std::string& directory) {
  ValuePieces pieces(executor());
  load_model(module(), into(pieces), CheckpointReader(directory + "/" + kAdapterWeightsFile), {},
             Part::adapter);
  derive(executor());
}

void SmallRun::feed(int64_t micro_batch, int64_t n) {
  const auto V = static_cast<uint64_t>(model_.config().V);
  const Key key = random_key(11, static_cast<uint64_t>(micro_batch), hash_name("tokens"));
  HostValues host(*executor_);
  auto fill = [&](std::string_view name, uint64_t stream) {
    const ValueId id = module().find_shared(micro_batch_input(name, n));
    if (!id.valid()) return;  // another stage's
    const auto out = host.make<int32_t>(id);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int32_t>(philox(key, i, stream)[0] % V);
  };
  fill("tokens", 0);
  if (const ValueId features = module().find_shared(micro_batch_input("features", n));
      features.valid()) {
    const auto out = host.make<float>(features);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(normal_pair(key, i)[0]);
  }
  fill("targets", 1);
  if (const ValueId starts = module().find_shared(micro_batch_input("starts", n)); starts.valid())
    fill_starts(host.make<int32_t>(starts), module()[starts].type.shape[1], key);
  auto set = [&](std::string_view name, auto value) {
    const ValueId id = module().find_shared(name);
    if (id.valid()) executor_->write_scalar(id, value);
  };
  set(micro_batch_input("sample", n), micro_batch * batch_);
  set("seed", int64_t{3});
  set("step", micro_batch / micro_batches());
  set(shared_names::kLossGrad, 1.0F / static_cast<float>(targets_ * micro_batches()));
  executor_->write_scalar(executor_->shared(shared_names::kLearningRate), lr);
}

void SmallRun::feed_last() { feed((fed_ - 1) * recipe_.sharding.ranks + recipe_.sharding.rank); }

float SmallRun::mean_loss(int64_t micro_batches) const {
  return executor_->read_scalar<float>(executor_->shared(shared_names::kLoss)) /
         static_cast<float>(targets_ * micro_batches);
}

float SmallRun::step() {
  executor_->run_step([&](const Program& program) {
    if (!is_training(program.role)) return;
    const Sharding& ranks = recipe_.sharding;
    for (int64_t n = 0; n < program.micro_batches; ++n) feed(fed_++ * ranks.ranks + ranks.rank, n);
  });
  return mean_loss(micro_batches());
}

std::vector<float> SmallRun::losses(int steps) {
  std::vector<float> out;
  for (int i = 0; i < steps; ++i) out.push_back(step());
  return out;
}

float SmallRun::evaluate() {
  flush_updates(*executor_);
  executor_->run(ProgramRole::evaluation);
  return mean_loss(recipe_.sharding.ranks);
}

}  // namespace snug
