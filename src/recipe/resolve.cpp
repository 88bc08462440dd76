#include "recipe/resolve.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "cost/device_costs.h"
#include "formats/peft_config.h"
#include "formats/toml_file.h"
#include "passes/tensor_parallel.h"
#include "recipe/allow.h"
#include "recipe/option_checks.h"

namespace snug {
namespace {

// "chunked" or "chunked:N" with N >= 1. False: another word.
bool read_chunked(const std::string& text, std::string_view option, std::string_view of_what,
                  int64_t& chunk) {
  constexpr std::string_view kWord = "chunked";
  if (text == kWord) return true;
  if (!text.starts_with(std::string(kWord) + ":")) return false;
  const std::string_view number = std::string_view(text).substr(kWord.size() + 1);
  if (!read_number(number, chunk) || chunk < 1)
    throw usage_error("--{} '{}': '{}' is not a number of {}", option, text, number, of_what);
  return true;
}

void resolve_loss(std::string& text, BuildOptions& build) {
  if (text == "auto") text = "chunked";
  build.chunked_loss = read_chunked(text, "loss", "tokens", build.loss_chunk);
  if (!build.chunked_loss)
    require_word(text, "loss", {"auto", "whole", "chunked", "chunked:TOKENS"});
}

void resolve_attention(std::string& text, BuildOptions& build) {
  using Kind = ops::AttentionKind;
  if (text == "auto") text = "flash";
  if (read_chunked(text, "attention", "queries", build.attention_chunk)) {
    build.attention = Kind::chunked;
  } else {
    require_word(text, "attention", {"auto", "standard", "chunked", "chunked:QUERIES", "flash"});
    build.attention = text == "flash" ? Kind::flash : Kind::standard;
  }
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

int64_t bytes_of_budget(const std::string& text, std::string_view option) {
  try {
    return parse_bytes(text);
  } catch (const Error& error) {
    throw usage_error("--{} {}", option, error.what()).hint(error.hint());
  }
}

std::optional<int64_t> optional_budget(const std::string& text, std::string_view option) {
  return text.empty() ? std::nullopt : std::optional(bytes_of_budget(text, option));
}

// What --budget, the memory of --gpu or what is free on the GPU leaves for the arena. None: there is
// no limit.
std::optional<int64_t> arena_budget(const Options& o, int64_t context,
                                    std::optional<int64_t> free_bytes) {
  if (o.budget.empty() && !o.gpu.empty()) return find_device(o.gpu).usable_bytes() - context;
  if (o.budget.empty() && !free_bytes) return {};
  const int64_t bytes = o.budget.empty() ? *free_bytes : bytes_of_budget(o.budget, "budget");
  if (context == 0 || bytes > context) return bytes - context;
  if (!o.budget.empty()) {
    throw does_not_fit("--budget {} leaves nothing: the GPU's driver and libraries alone take {}",
                       o.budget, format_bytes(context));
  }
  throw does_not_fit("{} are free on this GPU, and its driver and libraries alone take {}",
                     format_bytes(bytes), format_bytes(context))
      .hint("nvidia-smi shows which processes hold its memory; --device cpu does without it");
}

// Within bytes of its own, what to recompute is chosen alone.
void require_one_choice(const Options& o, const Recipe& recipe, std::optional<int64_t> budget) {
  const bool alone =
      recipe.recompute.kind == RecomputePolicy::Kind::automatic && recipe.recompute.bytes != budget;
  if (!alone || o.allow.empty()) return;
  throw usage_error("--allow {} and --recompute {}: the second leaves nothing open but recompute",
                    o.allow, o.recompute)
      .hint("leave one of them out; with --budget alone everything is chosen for it");
}

LrSchedule schedule_of(const Options& o) {
  require_at_least(1, o.steps, "steps");
  require_at_least(0, o.warmup, "warmup");
  require_between(0, 1e3, o.lr, "lr");
  require_between(0, 1, o.min_lr, "min-lr");
  const auto names = lr_schedule_names();
  require_word(o.lr_schedule, "lr-schedule", {names.begin(), names.end()});
  const LrSchedule schedule{.kind = *parse_lr_schedule(o.lr_schedule),
                            .peak = o.lr * learning_rate_factor(o),
                            .min_ratio = o.min_lr,
                            .warmup_steps = o.warmup,
                            .total_steps = o.steps};
  check(schedule);
  return schedule;
}

std::string toml_value(const std::string& text) { return toml_string(text); }
std::string toml_value(bool value) { return value ? "true" : "false"; }
std::string toml_value(int64_t value) { return fmt::format("{}", value); }
std::string toml_value(double value) { return fmt::format("{}", value); }

// Options that the search chooses, or that follow from others.
template <typename Visit>
void each_settled(Visit&& visit) {
  visit("device", &Options::device);
  visit("batch", &Options::batch);
  visit("accum", &Options::accum);
  visit("global-batch", &Options::global_batch);
  visit("zero", &Options::zero);
  visit("shard", &Options::shard);
  visit("micro-order", &Options::micro_order);
  visit("pp-schedule", &Options::pp_schedule);
  visit("attention", &Options::attention);
  visit("loss", &Options::loss);
  visit("recompute", &Options::recompute);
  visit("compress", &Options::compress);
  visit("offload", &Options::offload);
  visit("offload-ahead", &Options::offload_ahead);
  visit("fold-update", &Options::fold_update);
  visit("host-update", &Options::host_update);
  visit("precision", &Options::precision);
  visit("master", &Options::master);
  visit("tf32", &Options::tf32);
  visit("grad-dtype", &Options::grad_dtype);
  visit("loss-scale", &Options::loss_scale);
  visit("optimizer", &Options::optimizer);
  visit("state-dtype", &Options::state_dtype);
  visit("beta2", &Options::beta2);
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
  const std::string made = text(adapters_in(o.adapter));
  if (o.lora != "none" && text(parse_adapters(o.lora)) != made) {
    throw usage_error("--lora {} and --adapter {}, which has {}", o.lora, o.adapter, made)
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

std::string device_of(const Options& o, bool gpu_answers) {
  require_word(o.device, "device", {"auto", "cpu", "cuda", "null"});
  if (!o.gpu.empty() && o.device != "null") return "cuda";
  if (o.device != "auto") return o.device;
  return gpu_answers ? "cuda" : "cpu";
}

std::string device_of(const Options& o) {
  return device_of(o, o.gpu.empty() && o.device == "auto" && gpu_answers());
}

std::string device_text(const Resolved& run) {
  const bool here = run.options.device == "cuda" && !gpu_here().empty();
  const std::string one = !run.options.gpu.empty() ? run.cost_model.spec().name
                          : here                   ? gpu_here()
                                                   : run.options.device;
  return run.options.ranks > 1 ? fmt::format("{} x {}", run.options.ranks, one) : one;
}

// Each axis has groups of its own. Where there are two, the library's part is counted with both.
static int64_t groups_bytes_of(const Options& o, Backend backend) {
  const MeshSizes mesh = mesh_of(o);
  return groups_bytes(backend, mesh.dp, sharers_of(o), o.share_gpu) +
         groups_bytes(backend, mesh.tp, mesh.tp, o.share_gpu);
}

Settings settle(Options& o, const Model& model, std::optional<int64_t> budget) {
  o.device = device_of(o);
  if (o.init == "auto") o.init = model.has_weights() ? "load" : "scratch";
  if (o.data == "auto") o.data = "synthetic";
  Settings settings;
  settings.build = settle_build(o, model);
  settings.recipe = settle_recipe(o, budget);
  require_layers(settings.recipe.offload, model.config().L);
  require_host_update(settings.recipe, model.config().L);
  require_tokens_divide(settings.build.batch, settings.build.seq, settings.recipe.mesh);
  settings.math = {
      .deterministic = o.deterministic, .tf32 = o.tf32, .quick_autotune = o.tune == "short"};
  return settings;
}

Resolved resolve(Options o, std::optional<int64_t> free_bytes) {
  Model model = Model::load(o.model);
  return resolve(std::move(o), std::move(model), free_bytes);
}

Resolved resolve(Options o, Model model, std::optional<int64_t> free_bytes) {
  take_adapter(o);
  const Options asked = o;
  o.device = device_of(o);
  if (!o.gpu.empty() && o.device == "null") {
    throw usage_error("--gpu {} and --device null: the null device follows programs for a CPU",
                      o.gpu)
        .hint("leave one of them out; `snug plan --gpu` needs no device");
  }
  const Backend backend = backend_of(o);
  const int64_t context = context_bytes(backend) + groups_bytes_of(o, backend);
  require_word(o.init, "init", {"auto", "scratch", "load"});
  require_word(o.tune, "tune", {"auto", "short", "long"});
  require_word(o.loss_on, "loss-on", {"completion", "all"});
  require_word(o.long_samples, "long", {"truncate", "split", "refuse"});
  require_at_least(0, o.skip_bad, "skip-bad");
  require_between(0, 0.9, o.holdout, "holdout");
  require_at_least(0, o.eval_every, "eval-every");
  require_at_least(1, o.eval_batches, "eval-batches");
  require_between(0, 4096, static_cast<double>(o.threads), "threads");
  require_at_least(-1, o.mask_token, "mask-token");
  if (o.token_bytes != 0 && o.token_bytes != 2 && o.token_bytes != 4)
    throw usage_error("--token-bytes is {}; it must be 2 or 4", o.token_bytes);
  const std::optional<int64_t> budget = arena_budget(o, context, free_bytes);
  const auto host_budget = optional_budget(o.host_budget, "host-budget");
  const auto disk_budget = optional_budget(o.disk_budget, "disk-budget");
  check_allow(o, budget.has_value());
  Settings settings = settle(o, model, budget);
  if (o.init == "load" && !model.has_weights()) {
    throw usage_error("--init load, but '{}' holds no weights", o.model)
        .hint("give a directory with model.safetensors, or --init scratch");
  }
  require_one_choice(o, settings.recipe, budget);
  const LrSchedule schedule = schedule_of(o);
  checked_mul(checked_mul(o.global_batch, o.seq, "tokens per step"), o.steps, "tokens of the run");
  CostModel cost_model = cost_model_for(o, settings.math);
  return {std::move(settings),   std::move(o), asked,       std::move(model), budget, context,
          std::move(cost_model), schedule,     host_budget, disk_budget};
}

Resolved changed(const Resolved& run, const Change& change) {
  if (change.empty()) return run;
  Resolved then = run;
  then.asked = changed(run.asked, change);
  then.options = then.asked;
  then.options.device = run.options.device;
  static_cast<Settings&>(then) = settle(then.options, run.model, run.budget);
  require_one_choice(then.options, then.recipe, run.budget);
  then.schedule = schedule_of(then.options);
  if (!(then.math == run.math)) then.cost_model = cost_model_for(then.options, then.math);
  return then;
}

namespace {

// What was meant for one command only is not said again by who repeats the run, or goes on with it.
Options without_consent(Options o) {
  o.overwrite = o.resume_changed = o.new_data = false;
  o.resume.clear();
  o.given.clear();
  return o;
}

}  // namespace

Options as_asked(const Resolved& run) {
  Options options = without_consent(run.options);
  each_settled([&](std::string_view, auto member) { options.*member = run.asked.*member; });
  return options;
}

Options as_settled(const Resolved& run, const RecomputePolicy& recompute) {
  Options options = without_consent(run.options);
  options.recompute = option_text(recompute);
  return options;
}

std::string to_toml(const Resolved& run, const RecomputePolicy& recompute) {
  const Options options = as_asked(run);
  std::string out = fmt::format("model = {}\n", toml_value(options.model));
  each_option(options, [&](std::string_view key, const auto& value, std::string_view, OptionUse) {
    out += fmt::format("{} = {}\n", key, toml_value(value));
  });
  out +=
      "\n# What this run chose for the options that it was free to choose. --config passes over "
      "it.\n";
  out += "[settled]\n";
  const Options settled = as_settled(run, recompute);
  each_settled([&](std::string_view key, auto member) {
    out += fmt::format("{} = {}\n", key, toml_value(settled.*member));
  });
  return out;
}

}  // namespace snug
