// DeepSpeed's keys of what is learned: optimizer, schedule, and blocks that are not built.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "recipe/deepspeed_mapper.h"
#include "settings/parse.h"

namespace snug {
namespace {

std::string in_lower_case(std::string word) {
  for (char& c : word)
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c + 32);
  return word;
}

std::string param(std::string_view block, std::string_view name) {
  return fmt::format("{}.params.{}", block, name);
}

// --- optimizer -----------------------------------------------------------------------------------

// A number that the file gives, or that DeepSpeed takes where it says nothing.
void set_number(DeepSpeedMapper& m, const std::string& path, double Options::*option) {
  if (!m.is_open(path)) m.set(path, {{option, m.file.number(path)}});
}

void refuse_if(DeepSpeedMapper& m, bool applies, const std::string& path, std::string why) {
  if (applies) m.refuse(path, std::move(why));
}

void set_betas(DeepSpeedMapper& m, double second) {
  const std::string path = param("optimizer", "betas");
  if (m.is_open(path)) return;
  const auto [beta1, beta2] = m.file.betas(path, {0.9, second});
  m.set(path, {{&Options::beta1, beta1}, {&Options::beta2, beta2}});
}

void map_sgd(DeepSpeedMapper& m) {
  const std::string momentum = param("optimizer", "momentum");
  const std::string decay = param("optimizer", "weight_decay");
  set_number(m, momentum, &Options::momentum);
  refuse_if(m, m.file.flag(param("optimizer", "nesterov")), param("optimizer", "nesterov"),
            "Nesterov's momentum is not built");
  refuse_if(m, m.file.number(param("optimizer", "dampening")) != 0, param("optimizer", "dampening"),
            "dampening is not built");
  refuse_if(m, m.file.number(decay) > 0 && m.file.number(momentum) > 0, decay,
            "torch's SGD decays inside the momentum; here decay is decoupled");
}

void map_adam(DeepSpeedMapper& m, bool decoupled) {
  set_betas(m, 0.999);
  set_number(m, param("optimizer", "eps"), &Options::eps);
  const std::string mode = param("optimizer", "adam_w_mode");
  if (decoupled || m.file.flag(mode)) {
    m.say(mode, "decay is decoupled");
  } else if (m.file.number(param("optimizer", "weight_decay")) > 0) {
    m.refuse(mode, "decay inside the gradient is not built; decay here is decoupled");
  } else {
    m.say(mode, "no decay: the same numbers");
  }
  refuse_if(m, m.file.flag(param("optimizer", "amsgrad")), param("optimizer", "amsgrad"),
            "AMSGrad is not built");
  refuse_if(m, !m.file.flag(param("optimizer", "bias_correction")),
            param("optimizer", "bias_correction"), "the moments are always corrected here");
}

// --- scheduler -----------------------------------------------------------------------------------

struct Scheduler {
  std::string_view name;
  std::optional<LrSchedule::Kind> schedule;  // of Snug; none: not built
  std::string_view prefixes;                 // of its parameters, "|" between them
};
constexpr std::array<Scheduler, 5> kSchedulers{{
    {"WarmupLR", LrSchedule::Kind::constant,
     "warmup_min_lr|warmup_max_lr|warmup_num_steps|warmup_type"},
    {"WarmupDecayLR", LrSchedule::Kind::linear,
     "warmup_min_lr|warmup_max_lr|warmup_num_steps|warmup_type|total_num_steps"},
    {"WarmupCosineLR", LrSchedule::Kind::cosine,
     "warmup_min_ratio|warmup_num_steps|warmup_type|cos_min_ratio|total_num_steps"},
    {"OneCycle", {}, "cycle_|decay_"},
    {"LRRangeTest", {}, "lr_range_test_"},
}};

// DeepSpeed hands a schedule its parameters as arguments.
void require_own_params(const DeepSpeedMapper& m, const Scheduler& scheduler) {
  constexpr std::string_view kParams = "scheduler.params.";
  const std::vector<std::string> prefixes = split(scheduler.prefixes, '|');
  for (const DeepSpeedLine& line : m.result.lines) {
    if (!line.path.starts_with(kParams)) continue;
    const std::string name = line.path.substr(kParams.size());
    const bool own =
        name == "last_batch_iteration" ||
        std::ranges::any_of(prefixes, [&](const auto& p) { return name.starts_with(p); });
    if (!own) throw m.refusal(line.path, "is no parameter of {}", scheduler.name);
  }
}

void map_warmup(DeepSpeedMapper& m, const Scheduler& scheduler) {
  const std::string steps = param("scheduler", "warmup_num_steps");
  if (!m.is_open(steps)) m.set(steps, {{&Options::warmup, m.file.whole(steps)}});
  const std::string peak = param("scheduler", "warmup_max_lr");
  if (scheduler.schedule != LrSchedule::Kind::cosine) set_number(m, peak, &Options::lr);
  const std::string kind = param("scheduler", "warmup_type");
  if (m.file.has(kind) && m.file.text(kind) == "linear") m.say(kind, "as here");
  if (m.file.has(kind) && m.file.text(kind) == "log")
    m.say(kind, "warm-up here is linear: lower rates until it ends");
}

void map_end(DeepSpeedMapper& m, const Scheduler& scheduler) {
  const std::string total = param("scheduler", "total_num_steps");
  if (m.file.has(total)) {
    m.set(total, {{&Options::steps, m.file.whole(total)}});
  } else if (!m.is_open(total)) {
    throw bad_input("{}: {} needs {}", m.file.where(), scheduler.name, total);
  }
}

}  // namespace

void map_optimizer(DeepSpeedMapper& m) {
  if (!m.file.has("optimizer.type")) return;
  const std::string type = in_lower_case(m.file.text("optimizer.type"));
  if (m.file.has(param("optimizer", "max_grad_norm"))) {
    throw m.refusal(param("optimizer", "max_grad_norm"),
                    "is no parameter of an optimizer: DeepSpeed asks for gradient_clipping");
  }
  const bool adam = type == "adam" || type == "adamw";
  if (!adam && type != "lion" && type != "sgd") {
    m.say_of_block("optimizer.params.", "", "of an optimizer that is not built");
    m.refuse("optimizer.type", "not built; --optimizer has adamw, adamw8bit, adam-mini, lion, sgd");
    return;
  }
  m.set("optimizer.type",
        {{&Options::optimizer, parse_setting<OptimizerKind>(adam ? "adamw" : type, "optimizer")}},
        type == "adam" ? "Adam of DeepSpeed is AdamW" : "the same");
  set_number(m, param("optimizer", "lr"), &Options::lr);
  set_number(m, param("optimizer", "weight_decay"), &Options::weight_decay);
  if (adam) map_adam(m, type == "adamw");
  if (type == "lion") set_betas(m, 0.99);
  if (type == "sgd") map_sgd(m);
}

void map_scheduler(DeepSpeedMapper& m) {
  if (!m.file.has("scheduler.type")) return;
  const std::string type = m.file.text("scheduler.type");
  const auto* known = std::ranges::find(kSchedulers, type, &Scheduler::name);
  if (known == kSchedulers.end() || !known->schedule) {
    if (known != kSchedulers.end()) require_own_params(m, *known);
    m.say_of_block("scheduler.params.", "", "of a schedule that is not built");
    m.refuse("scheduler.type", "not built; --lr-schedule has constant, cosine, linear, wsd");
    return;
  }
  require_own_params(m, *known);
  m.set("scheduler.type", {{&Options::lr_schedule, *known->schedule}},
        fmt::format("warm-up, then {}", print_setting(*known->schedule)));
  map_warmup(m, *known);
  if (known->schedule == LrSchedule::Kind::constant) return;
  map_end(m, *known);
  if (known->schedule == LrSchedule::Kind::linear)
    m.set("scheduler.type", {{&Options::min_lr, 0.0}});
  if (known->schedule == LrSchedule::Kind::cosine)
    set_number(m, param("scheduler", "cos_min_ratio"), &Options::min_lr);
}

void map_other_learning(DeepSpeedMapper& m) {
  for (const DeepSpeedEntry& entry : m.file.entries()) {
    if (entry.key == nullptr || entry.key->type != DeepSpeedType::any) continue;
    const auto is = [&](std::initializer_list<std::string_view> names) {
      return std::ranges::find(names, entry.path) != names.end();
    };
    if (!entry.value.is_object() || entry.value.empty()) continue;
    const bool enabled =
        entry.value.contains("enabled") && as_flag(entry.value["enabled"]).value_or(false);
    if (is({"sparse_attention", "compression_training", "weight_quantization"}))
      m.refuse(entry.path, "changes what is learned, and is not built");
    if (is({"amp", "curriculum_learning", "data_efficiency", "progressive_layer_drop"})) {
      if (enabled)
        m.refuse(entry.path, "changes what is learned, and is not built");
      else
        m.say(entry.path, "is off");
    }
    if (entry.path == "elasticity" && enabled)
      m.refuse(entry.path, "chooses the batch by the number of ranks, and is not built");
  }
}

}  // namespace snug
