#include "train/resolve.h"

#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace snug {
namespace {

void require_at_least(int64_t least, int64_t value, std::string_view option) {
  if (value < least) throw usage_error("--{} is {}; it must be at least {}", option, value, least);
}

void require_between(double low, double high, double value, std::string_view option) {
  if (!(value >= low && value <= high)) {
    throw usage_error("--{} is {}; it must be between {} and {}", option, value, low, high);
  }
}

// One of the words, or a usage error that lists them.
void require_word(const std::string& word, std::string_view option,
                  std::vector<std::string> words) {
  for (const std::string& known : words) {
    if (word == known) return;
  }
  throw usage_error("--{} '{}' is not one of {}{}", option, word, join(words, ", "),
                    did_you_mean(word, words));
}

void resolve_loss(const std::string& text, BuildOptions& build) {
  const auto parts = split(text, ':');
  require_word(parts[0], "loss", {"whole", "chunked"});
  build.chunked_loss = parts[0] == "chunked";
  if (parts.size() == 1) return;
  int64_t chunk = 0;
  const auto [end, failure] =
      std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), chunk);
  const bool whole_text = failure == std::errc{} && end == parts[1].data() + parts[1].size();
  if (!build.chunked_loss || parts.size() > 2 || !whole_text || chunk < 1) {
    throw usage_error("--loss '{}' is not of the form whole, chunked or chunked:TOKENS", text);
  }
  build.loss_chunk = chunk;
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

BuildOptions build_options(Options& o, const Model& model) {
  require_at_least(1, o.batch, "batch");
  require_at_least(0, o.seq, "seq");
  require_word(o.attention, "attention", {"auto", "standard", "flash"});
  BuildOptions build;
  if (model.config().family == "mlp") {
    o.seq = 1;
  } else if (o.seq == 0) {
    o.seq = std::min<int64_t>(1024, model.config().max_positions);
  }
  build.batch = o.batch;
  build.seq = o.seq;
  if (o.attention == "auto") o.attention = "flash";
  build.attention =
      o.attention == "flash" ? ops::AttentionKind::flash : ops::AttentionKind::standard;
  resolve_loss(o.loss, build);
  resolve_dropout(o, model.config(), build);
  return build;
}

int64_t bytes_of_budget(const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const Error& error) {
    throw usage_error("--budget {}", error.what()).hint(error.hint());
  }
}

Recipe recipe_of(const Options& o) {
  require_at_least(1, o.accum, "accum");
  require_between(0, 0.999999, o.beta1, "beta1");
  require_between(0, 0.999999, o.beta2, "beta2");
  require_between(0, 1, o.eps, "eps");
  require_between(0, 1e3, o.weight_decay, "weight-decay");
  require_between(0, 1e9, o.clip, "clip");
  return {.accum = o.accum,
          .recompute = parse_recompute(o.recompute),
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .clip = o.clip};
}

LrSchedule schedule_of(const Options& o) {
  require_at_least(1, o.steps, "steps");
  require_at_least(0, o.warmup, "warmup");
  require_between(0, 1e3, o.lr, "lr");
  require_between(0, 1, o.min_lr, "min-lr");
  const auto names = lr_schedule_names();
  require_word(o.lr_schedule, "lr-schedule", {names.begin(), names.end()});
  const LrSchedule schedule{.kind = *parse_lr_schedule(o.lr_schedule),
                            .peak = o.lr,
                            .min_ratio = o.min_lr,
                            .warmup_steps = o.warmup,
                            .total_steps = o.steps};
  check(schedule);
  return schedule;
}

std::string toml_value(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}
std::string toml_value(bool value) { return value ? "true" : "false"; }
std::string toml_value(int64_t value) { return fmt::format("{}", value); }
std::string toml_value(double value) { return fmt::format("{}", value); }

}  // namespace

Resolved resolve(Options o) {
  Model model = Model::load(o.model);
  require_word(o.device, "device", {"cpu", "null"});
  require_word(o.init, "init", {"auto", "scratch", "load"});
  require_between(0, 0.9, o.holdout, "holdout");
  require_at_least(0, o.eval_every, "eval-every");
  require_at_least(1, o.eval_batches, "eval-batches");
  require_between(0, 4096, static_cast<double>(o.threads), "threads");
  require_at_least(-1, o.mask_token, "mask-token");
  std::optional<int64_t> budget;
  if (!o.budget.empty()) budget = bytes_of_budget(o.budget);
  const BuildOptions build = build_options(o, model);
  if (o.init == "auto") o.init = model.has_weights() ? "load" : "scratch";
  if (o.init == "load" && !model.has_weights()) {
    throw usage_error("--init load, but '{}' holds no weights", o.model)
        .hint("give a directory with model.safetensors, or --init scratch");
  }
  const Recipe recipe = recipe_of(o);
  const LrSchedule schedule = schedule_of(o);
  return {std::move(o), std::move(model), build, recipe, budget, schedule};
}

Plan make_plan(const Resolved& run) {
  return make_plan(run.model.config().name, run.model.forward(run.build), run.recipe);
}

std::string to_toml(const Options& options) {
  std::string out = fmt::format("model = {}\n", toml_value(options.model));
  each_option(options, [&](std::string_view key, const auto& value, std::string_view, OptionUse) {
    out += fmt::format("{} = {}\n", key, toml_value(value));
  });
  return out;
}

}  // namespace snug
