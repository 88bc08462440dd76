#include "recipe/resolve.h"

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "cost/device_costs.h"
#include "formats/peft_config.h"
#include "formats/toml_file.h"
#include "recipe/open_dimensions.h"
#include "settings/option_checks.h"
#include "techniques/tensor/tensor_parallel.h"

namespace snug {
namespace {

void resolve_loss(Open<LossChoice>& loss, BuildOptions& build) {
  if (!loss) loss = LossChoice{};
  build.chunked_loss = loss->chunked;
  if (loss->chunk > 0) build.loss_chunk = loss->chunk;
}

void resolve_attention(Open<AttentionChoice>& attention, BuildOptions& build) {
  if (!attention) attention = AttentionChoice{};
  build.attention = attention->kind;
  if (attention->chunk > 0) build.attention_chunk = attention->chunk;
}

// A rate that the model uses throughout is made explicit; several rates stay the model's.
void resolve_dropout(Options& o, const ModelConfig& c, BuildOptions& build) {
  if (!(o.dropout < 0)) {
    require_between(0, 0.99, o.dropout, "dropout");
    build.dropout = o.dropout;
  } else if (c.embedding_dropout == c.attention_dropout &&
             c.attention_dropout == c.residual_dropout) {
    o.dropout = c.residual_dropout;
  }
}

// On a GPU the sum costs nothing in the matmul's epilogue, logits in scratch have rows that fast
// matmuls can read, whatever the vocabulary, and a chunk's logits must be many for its matmuls to
// be efficient.
void for_gpu(BuildOptions& build) {
  build.residual_in_matmul = true;
  build.fused_loss = true;
  build.loss_chunk = 8192;
}

// What --budget, the memory of --gpu or what is free on the GPU leaves for the arena. None: there is
// no limit.
std::optional<int64_t> arena_budget(const Options& o, int64_t context,
                                    std::optional<int64_t> free_bytes) {
  if (!o.budget.given() && !o.gpu.empty()) return find_device(o.gpu).usable_bytes() - context;
  if (!o.budget.given() && !free_bytes) return {};
  const int64_t bytes = o.budget.given() ? *o.budget.bytes : *free_bytes;
  if (context == 0 || bytes > context) return bytes - context;
  if (o.budget.given()) {
    throw does_not_fit("--budget {} leaves nothing: the GPU's driver and libraries alone take {}",
                       text(o.budget), format_bytes(context));
  }
  throw does_not_fit("{} are free on this GPU, and its driver and libraries alone take {}",
                     format_bytes(bytes), format_bytes(context))
      .hint("nvidia-smi shows which processes hold its memory; --device cpu does without it");
}

// Within bytes of its own, what to recompute is chosen alone.
void require_one_choice(const Options& o, const Recipe& recipe, std::optional<int64_t> budget) {
  const bool alone =
      recipe.recompute.kind == RecomputePolicy::Kind::automatic && recipe.recompute.bytes != budget;
  if (!alone || !o.allow.any()) return;
  throw usage_error("--allow {} and --recompute {}: the second leaves nothing open but recompute",
                    text(o.allow), print_setting(o.recompute))
      .hint("leave one of them out; with --budget alone everything is chosen for it");
}

LrSchedule schedule_of(const Options& o) {
  require_at_least(1, o.steps, "steps");
  require_at_least(0, o.warmup, "warmup");
  require_between(0, 1e3, o.lr, "lr");
  require_between(0, 1, o.min_lr, "min-lr");
  const LrSchedule schedule{.kind = o.lr_schedule,
                            .peak = o.lr * learning_rate_factor(o),
                            .min_ratio = o.min_lr,
                            .warmup_steps = o.warmup,
                            .total_steps = o.steps};
  check(schedule);
  return schedule;
}

std::string toml_value(const Option& option, const Options& options) {
  const std::string text = option.text(options);
  return option.kind == ValueKind::text ? toml_string(text) : text;
}

BuildOptions settle_build(Options& o, const Model& model) {
  require_at_least(1, o.batch, "batch");
  require_at_least(0, o.seq, "seq");
  BuildOptions build;
  if (!model.config().transformer) {
    o.seq = 1;
  } else if (o.seq == 0) {
    o.seq = std::min<int64_t>(1024, model.config().max_positions);
  }
  build.batch = o.batch;
  build.seq = o.seq;
  resolve_attention(o.attention, build);
  if (backend_of(o) == Backend::cuda) for_gpu(build);
  resolve_loss(o.loss, build);
  resolve_dropout(o, model.config(), build);
  build.packed = o.pack;
  return build;
}

// Goes on with an adapter as it was made.
void take_adapter(Options& o) {
  if (o.adapter.empty()) return;
  const Adapters made = adapters_in(o.adapter);
  if (o.lora.on() && o.lora != made) {
    throw usage_error("--lora {} and --adapter {}, which has {}", text(o.lora), o.adapter,
                      text(made))
        .hint("leave --lora out: the adapter says what it is");
  }
  o.lora = made;
}

}  // namespace

Adapters adapters_in(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kAdapterConfigFile;
  const PeftConfig config = PeftConfig::parse(read_file(file), file.string());
  return {.rank = config.rank,
          .alpha = config.alpha,
          .dropout = config.dropout,
          .targets = config.targets};
}

DeviceChoice device_of(const Options& o, bool gpu_answers) {
  if (!o.gpu.empty() && o.device != DeviceChoice::null) return DeviceChoice::cuda;
  return o.device.value_or(gpu_answers ? DeviceChoice::cuda : DeviceChoice::cpu);
}

DeviceChoice device_of(const Options& o) {
  return device_of(o, o.gpu.empty() && !o.device && gpu_answers());
}

std::string device_text(const Resolved& run) {
  const bool here = run.options.device == DeviceChoice::cuda && !gpu_here().empty();
  const std::string one = !run.options.gpu.empty() ? run.cost_model.spec().name
                          : here                   ? gpu_here()
                                                   : print_setting(run.options.device);
  return run.options.ranks > 1 ? fmt::format("{} x {}", run.options.ranks, one) : one;
}

// Each axis has groups of its own. Where there are two, the library's part is counted with both.
static int64_t groups_bytes_of(const Options& o, Backend backend) {
  const MeshSizes mesh = mesh_of(o);
  return groups_bytes(backend, mesh.dp, sharers_of(o), o.share_gpu) +
         groups_bytes(backend, mesh.tp, mesh.tp, o.share_gpu);
}

Settings settle(Options& o, const Model& model, std::optional<int64_t> budget, int64_t rank) {
  o.device = device_of(o);
  if (!o.init) o.init = model.has_weights() ? StartFrom::load : StartFrom::scratch;
  if (o.data == "auto") o.data = "synthetic";
  Settings settings;
  settings.build = settle_build(o, model);
  settings.recipe = settle_recipe(o, budget, rank);
  require_layers(settings.recipe.offload, model.config().L);
  require_host_update(settings.recipe, model.config().L);
  require_tokens_divide(settings.build.batch, settings.build.seq, settings.recipe.mesh);
  settings.math = {
      .deterministic = o.deterministic, .tf32 = o.tf32, .quick_autotune = o.tune == Tune::quick};
  return settings;
}

Resolved resolve(Options o, std::optional<int64_t> free_bytes, const RankHere& here) {
  Model model = Model::load(o.model);
  return resolve(std::move(o), std::move(model), free_bytes, here);
}

Resolved resolve(Options o, Model model, std::optional<int64_t> free_bytes, const RankHere& here) {
  take_adapter(o);
  const Options asked = o;
  o.device = device_of(o);
  if (!o.gpu.empty() && o.device == DeviceChoice::null) {
    throw usage_error("--gpu {} and --device null: the null device follows programs for a CPU",
                      o.gpu)
        .hint("leave one of them out; `snug plan --gpu` needs no device");
  }
  const Backend backend = backend_of(o);
  const int64_t context = context_bytes(backend) + groups_bytes_of(o, backend);
  require_at_least(0, o.skip_bad, "skip-bad");
  require_between(0, 0.9, o.holdout, "holdout");
  require_at_least(0, o.eval_every, "eval-every");
  require_at_least(1, o.eval_batches, "eval-batches");
  require_between(0, 4096, static_cast<double>(o.threads), "threads");
  require_at_least(-1, o.mask_token, "mask-token");
  if (o.token_bytes != 0 && o.token_bytes != 2 && o.token_bytes != 4)
    throw usage_error("--token-bytes is {}; it must be 2 or 4", o.token_bytes);
  const std::optional<int64_t> budget = arena_budget(o, context, free_bytes);
  check_allow(o, budget.has_value());
  Settings settings = settle(o, model, budget, here.rank);
  if (o.init == StartFrom::load && !model.has_weights()) {
    throw usage_error("--init load, but '{}' holds no weights", o.model)
        .hint("give a directory with model.safetensors, or --init scratch");
  }
  require_one_choice(o, settings.recipe, budget);
  const LrSchedule schedule = schedule_of(o);
  checked_mul(checked_mul(o.global_batch, o.seq, "tokens per step"), o.steps, "tokens of the run");
  CostModel cost_model = cost_model_for(o, settings.math, here);
  const std::optional<int64_t> host_budget = o.host_budget.bytes, disk_budget = o.disk_budget.bytes;
  return {std::move(settings),   std::move(o), asked,       std::move(model), budget, context,
          std::move(cost_model), schedule,     host_budget, disk_budget,      here};
}

Resolved changed(const Resolved& run, const Change& change) {
  if (change.empty()) return run;
  Resolved then = run;
  then.asked = changed(run.asked, change);
  then.options = then.asked;
  then.options.device = run.options.device;
  static_cast<Settings&>(then) = settle(then.options, run.model, run.budget, run.here.rank);
  require_one_choice(then.options, then.recipe, run.budget);
  then.schedule = schedule_of(then.options);
  if (!(then.math == run.math)) then.cost_model = cost_model_for(then.options, then.math, run.here);
  return then;
}

namespace {

// What was meant for one command only is not repeated with the run, or by what resumes it.
Options without_consent(Options o) {
  o.overwrite = o.resume_changed = o.new_data = false;
  o.resume.clear();
  o.given.clear();
  return o;
}

}  // namespace

Options as_asked(const Resolved& run) {
  Options options = without_consent(run.options);
  for (const Option& option : all_options())
    if (option.settled) option.copy(run.asked, options);
  return options;
}

Options as_settled(const Resolved& run, const RecomputePolicy& recompute) {
  Options options = without_consent(run.options);
  options.recompute = recompute;
  return options;
}

std::string to_toml(const Resolved& run, const RecomputePolicy& recompute) {
  const Options options = as_asked(run);
  std::string out = fmt::format("model = {}\n", toml_string(options.model));
  for (const Option& option : all_options())
    out += fmt::format("{} = {}\n", option.key, toml_value(option, options));
  out +=
      "\n# What this run chose for the options that it was free to choose. --config passes over "
      "it.\n";
  out += "[settled]\n";
  const Options settled = as_settled(run, recompute);
  for (const Option& option : all_options())
    if (option.settled) out += fmt::format("{} = {}\n", option.key, toml_value(option, settled));
  return out;
}

}  // namespace snug
