// `--deepspeed FILE` and `snug deepspeed FILE MODEL`.
#include "snug/deepspeed.h"

#include <algorithm>
#include <map>

#include "advice/plan_facts.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "comm/job_place.h"
#include "machine/here.h"
#include "models/model.h"
#include "recipe/deepspeed.h"
#include "recipe/resolve.h"
#include "report/deepspeed_report.h"
#include "search/meshes/mesh_search.h"

namespace snug {
namespace {

DeepSpeedPlace deepspeed_place(const Options& options) {
  const Model model = Model::load(options.model);
  int64_t ranks = ranks_of(options);
  if (const auto job = job_place(); job && options.ranks == 0 && ranks == 1) ranks = job->ranks;
  const MeshSizes mesh = mesh_of(options);
  return {.ranks = ranks,
          .tp = mesh.tp,
          .pp = mesh.pp,
          .width = model.config().C,
          .layers = model.config().L,
          .batch_given = is_given(options, "batch")};
}

// The option of the command line that wins over one of the file: itself, or another word for it.
std::string overruled_by(const Options& options, std::string_view option) {
  std::vector<std::string> words{std::string(option)};
  if (option == "zero") words.emplace_back("shard");
  if (option == "accum") words.emplace_back("global-batch");
  for (const std::string& word : words)
    if (is_given(options, word)) return word;
  return "";
}

// The part of the change that the command line does not override.
Change left_of(const Change& change, const Options& options) {
  Change left;
  for (const OptionValue& setting : change.settings())
    if (overruled_by(options, setting.option->key).empty()) left += Change({setting});
  return left;
}

// "--batch 4" where the command line says something else than the file; empty: it does not.
std::string said_instead(const Change& change, const Options& options) {
  std::vector<std::string> flags;
  for (const OptionValue& setting : change.settings()) {
    const Option& option = *setting.option;
    const std::string word = overruled_by(options, option.key);
    if (word.empty()) continue;
    if (word != option.key || !option.same(changed(options, Change({setting})), options))
      flags.push_back(fmt::format("--{} {}", word, option_text(options, word)));
  }
  return join(flags, " ");
}

void say_differences(const DeepSpeedConfig& file, const DeepSpeedMapped& mapped,
                     const Options& options, const std::function<void(const std::string&)>& said) {
  for (const DeepSpeedLine& line : mapped.lines) {
    if (!line.known) said(fmt::format("{}: {} is {}", file.where(), line.written, line.here));
    const std::string instead = said_instead(line.change, options);
    if (!instead.empty())
      said(fmt::format("{} in place of {} {}, which {} says", instead, line.written, line.value,
                       file.where()));
  }
}

void refuse_other_learning(const DeepSpeedConfig& file, const DeepSpeedMapped& mapped) {
  for (const DeepSpeedLine& line : mapped.lines) {
    if (!line.refused) continue;
    throw usage_error("{}: {} {}: {}", file.where(), line.written, line.value, line.here)
        .hint("`snug deepspeed FILE MODEL` says for every key what it does here");
  }
}

bool plan_alike(const Options& a, const Options& b) {
  return std::ranges::all_of(all_options(), [&](const Option& option) {
    return !option.is_for(Verbs::plan) || option.same(a, b);
  });
}

// Plans of the file without one of its keys.
class KeyEffects {
 public:
  KeyEffects(const Options& options, const DeepSpeedPlace& place, const DeepSpeedConfig& file,
             const PlannedRun& with)
      : options_(options), place_(place), file_(file), with_(with) {}

  // Nothing where the plan does not depend on the key, or the file is none without it.
  std::optional<KeyEffect> of(const DeepSpeedLine& line) const {
    const Change all = left_of(map_deepspeed(file_, place_).change, options_);
    const std::optional<Change> without = change_without(line.path);
    if (!without) return {};
    const Options fewer = changed(options_, *without);
    if (plan_alike(fewer, changed(options_, all))) return {};
    const auto planned = unless_refused([&] { return plan_as_given(resolve_here(fewer)); });
    if (!planned) return {};
    const SpaceBytes a = arenas_of(planned->plan.module);
    const SpaceBytes b = arenas_of(with_.plan.module);
    return KeyEffect{.device_bytes = b[Space::device] - a[Space::device],
                     .host_bytes = b[Space::host] - a[Space::host],
                     .disk_bytes = b[Space::disk] - a[Space::disk],
                     .step_ms = (with_.step_seconds - planned->step_seconds) * 1e3};
  }

 private:
  std::optional<Change> change_without(const std::string& path) const {
    try {
      return left_of(map_deepspeed(file_.without(path), place_).change, options_);
    } catch (const Error& error) {
      if (error.code() == ExitCode::internal) throw;
      return {};
    }
  }

  const Options& options_;
  const DeepSpeedPlace& place_;
  const DeepSpeedConfig& file_;
  const PlannedRun& with_;
};

}  // namespace

Options with_deepspeed(const Options& options, const std::string& path,
                       const std::function<void(const std::string&)>& said) {
  const DeepSpeedConfig file = DeepSpeedConfig::read(path);
  const DeepSpeedMapped mapped = map_deepspeed(file, deepspeed_place(options));
  refuse_other_learning(file, mapped);
  if (said) say_differences(file, mapped, options, said);
  return changed(options, left_of(mapped.change, options));
}

DeepSpeedReport deepspeed(const Options& asked, const std::string& path,
                          const std::function<void(const std::string&)>& doing) {
  // As DeepSpeed takes them: where a key moves values, the search may find another order, which
  // keeps more, and what the key saves would be lost in that.
  Options options = asked;
  if (!options.micro_order) options.micro_order = MicroOrder{};
  const DeepSpeedConfig file = DeepSpeedConfig::read(path);
  const DeepSpeedPlace place = deepspeed_place(options);
  const DeepSpeedMapped mapped = map_deepspeed(file, place);
  const Change change = left_of(mapped.change, options);
  if (doing) doing("planning");
  const PlannedRun planned = plan_as_given(resolve_here(changed(options, change)));
  const KeyEffects effects(options, place, file, planned);
  DeepSpeedFacts facts{.file = file.where(), .rows = {}, .flags = flags_of(change)};
  for (const DeepSpeedLine& line : mapped.lines) {
    const Change left = left_of(line.change, options);
    if (doing && !left.empty()) doing("planning without " + line.written);
    facts.rows.push_back({.key = printable(line.written),
                          .value = line.value,
                          .flags = flags_of(left),
                          .instead = said_instead(line.change, options),
                          .here = line.here,
                          .known = line.known,
                          .refused = line.refused,
                          .effect = left.empty() ? std::nullopt : effects.of(line)});
  }
  const PlanFacts plan = facts_of(planned, Advise::never);
  const MemoryBreakdown& memory = planned.plan.memory;
  const Paint paint{!options.json && stdout_is_terminal()};
  return {.fits = fits(memory, plan),
          .table = deepspeed_table(facts, memory, plan, paint),
          .json = deepspeed_json(facts, memory, plan)};
}

}  // namespace snug
