#include <array>

#include "base/units.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

Json layer_json(int32_t layer) { return layer == kNoLayer ? Json(nullptr) : Json(layer); }

Json categories_json(const CategoryBytes& bytes) {
  Json out = Json::object();
  for (size_t c = 0; c < bytes.size(); ++c) {
    out[std::string(name_of(static_cast<Category>(c)))] = bytes[c];
  }
  return out;
}

Json breakdown_json(const SpaceBreakdown& space) {
  Json out = categories_json(space.breakdown);
  out["gaps"] = space.gaps;
  return out;
}

Json peak_json(const Peak& peak) {
  if (peak.program.empty()) return nullptr;
  return {{"program", peak.program},
          {"op", peak.op},
          {"op_index", peak.op_index},
          {"layer", layer_json(peak.layer)},
          {"phase", name_of(peak.phase)}};
}

template <typename Number>
Json phases_json(const std::array<Number, kPhases>& sums) {
  Json out = Json::object();
  for (size_t p = 0; p < sums.size(); ++p) {
    out[std::string(name_of(static_cast<Phase>(p)))] = sums[p];
  }
  return out;
}

Json largest_json(const SpaceBreakdown& space) {
  Json out = Json::array();
  for (const OwnedBytes& v : space.largest) {
    out.push_back({{"name", v.name},
                   {"type", v.type.text()},
                   {"category", name_of(v.category)},
                   {"layer", layer_json(v.layer)},
                   {"bytes", v.bytes}});
  }
  return out;
}

Json layers_json(const MemoryBreakdown& memory) {
  Json out = Json::array();
  for (const LayerBreakdown& l : memory.layers) {
    out.push_back({{"layer", layer_json(l.layer)},
                   {"params", l.params},
                   {"grads", l.grads},
                   {"optimizer", l.optimizer},
                   {"kept", l.kept},
                   {"at_peak", l.at_peak},
                   {"forward_flops", l.forward_flops}});
  }
  return out;
}

Json programs_json(const MemoryBreakdown& memory) {
  Json out = Json::array();
  for (const ProgramWork& p : memory.programs) {
    out.push_back({{"name", p.name},
                   {"runs_per_step", p.runs_per_step},
                   {"ops", p.ops},
                   {"flops", phases_json(p.flops)},
                   {"bytes_moved", phases_json(p.bytes_moved)}});
  }
  return out;
}

Json advice_json(const PlanFacts& facts) {
  Json out = Json::array();
  for (const Advice& a : facts.advice) {
    out.push_back({{"change", a.change},
                   {"beside", a.pins},
                   {"peak_bytes", a.peak_bytes},
                   {"step_ms", or_null(a.step_ms)},
                   {"saves_bytes", a.saves_bytes},
                   {"time_ratio", 1 + a.slower},
                   {"effect", name_of(a.effect)}});
    if (!a.needs().outside_device()) continue;
    out.back()["host_bytes"] = a.host_bytes;
    out.back()["disk_bytes"] = a.disk_bytes;
  }
  return out;
}

Json runners_up_json(const PlanFacts& facts) {
  Json out = Json::array();
  for (const RunnerUp& r : facts.runners_up) {
    out.push_back({{"change", r.name},
                   {"peak_bytes", r.bytes},
                   {"step_ms", r.seconds * 1e3},
                   {"effect", name_of(r.effect)},
                   {"why", r.why}});
  }
  return out;
}

Json chosen_json(const PlanFacts& facts) {
  if (!facts.chosen) return nullptr;
  return {{"policy", facts.chosen->policy},
          {"needed_without_bytes", facts.chosen->needed_without},
          {"extra_time", facts.chosen->extra_time}};
}

Json attention_json(const PlanFacts& facts) {
  if (!facts.attention) return nullptr;
  constexpr std::array kNames{"only", "cudnn", "tensor_cores", "plain_tiles"};
  const AttentionFacts& a = *facts.attention;
  return {{"kernels", kNames[static_cast<size_t>(a.by)]},
          {"why", or_null(a.why)},
          {"instead", or_null(a.instead)},
          {"share_of_step", a.share}};
}

Json spaces_json(const MemoryBreakdown& memory) {
  Json out = Json::object();
  for (const Space space : kAllSpaces) {
    out[std::string(name_of(space))] = {{"arena_bytes", memory[space].placement.arena_bytes},
                                        {"max_live_bytes", memory[space].placement.max_live_bytes},
                                        {"breakdown", breakdown_json(memory[space])}};
  }
  return out;
}

Json stages_json(const PlanFacts& facts) {
  Json out = Json::array();
  for (const StagePlan& s : facts.stages) {
    out.push_back({{"layers", text(s.layers)},
                   {"first_layer", s.layers.front().first},
                   {"last_layer", s.layers.back().last},
                   {"arena_bytes", s.arenas[Space::device]},
                   {"micro_batches_kept", s.micro_batches},
                   {"computes_ms", s.computes * 1e3},
                   {"sent_bytes", s.sent_bytes}});
  }
  return out;
}

Json meshes_json(const PlanFacts& facts) {
  Json out = Json::array();
  for (const MeshRow& row : facts.meshes) {
    out.push_back({{"pp", row.mesh.pp},
                   {"dp", row.mesh.dp},
                   {"tp", row.mesh.tp},
                   {"flags", flags_of(row.change)},
                   {"arena_bytes", row.bytes},
                   {"step_ms", row.seconds * 1e3},
                   {"estimated", !row.whole},
                   {"why", row.why}});
  }
  return out;
}

Json lanes_json(const PlanFacts& facts) {
  Json out = Json::array();
  for (const LaneCost& l : facts.lanes) {
    out.push_back({{"lane", l.lane},
                   {"busy_ms", l.busy_seconds * 1e3},
                   {"hidden_ms", l.hidden_seconds() * 1e3},
                   {"exposed_ms", l.exposed_seconds * 1e3},
                   {"moved_bytes", l.moved_bytes}});
  }
  return out;
}

}  // namespace

int64_t PlanFacts::tokens_per_step() const {
  const int64_t all = sequences > 0 ? sequences : checked_mul(batch, accum, "sequences per step");
  return checked_mul(all, seq, "tokens per step");
}

std::optional<double> PlanFacts::tokens_per_s() const {
  if (!step_ms || *step_ms <= 0) return std::nullopt;
  return static_cast<double>(tokens_per_step()) * 1e3 / *step_ms;
}

std::optional<int64_t> PlanFacts::arena_budget() const {
  return budget_bytes ? std::optional(*budget_bytes - context_bytes) : std::nullopt;
}

Limits PlanFacts::limits() const {
  return {{{arena_budget().value_or(kUnlimited), left_of(host_budget_bytes, host_context_bytes),
            disk_budget_bytes.value_or(kUnlimited)}},
          host_is_pinned};
}

std::string_view name_of(Effect effect) {
  constexpr std::array kNames{"exact", "rounding", "learning"};
  return kNames[static_cast<size_t>(effect)];
}

bool fits(const MemoryBreakdown& memory, const PlanFacts& facts) {
  return arenas_of(memory).fits_in(facts.limits());
}

Json plan_json(const MemoryBreakdown& memory, const PlanFacts& facts) {
  const SpaceBreakdown& device = memory.device();
  Json out = {
      {"model", facts.model},
      {"params", memory.trainable_params + memory.frozen_params},
      {"model_params",
       std::max(facts.model_params, memory.trainable_params + memory.frozen_params)},
      {"trainable_params", memory.trainable_params},
      {"batch", facts.batch},
      {"seq", facts.seq},
      {"accum", facts.accum},
      {"fits", fits(memory, facts)},
      {"arena_bytes", device.placement.arena_bytes},
      {"max_live_bytes", device.placement.max_live_bytes},
      {"budget_bytes", or_null(facts.budget_bytes)},
      {"context_bytes", facts.context_bytes + facts.page_table_bytes(arenas_of(memory))},
      {"breakdown", breakdown_json(device)},
      {"category_peaks", categories_json(device.category_peaks)},
      {"host_bytes", memory[Space::host].placement.arena_bytes},
      {"disk_bytes", memory[Space::disk].placement.arena_bytes},
      {"transient",
       {{"arena_bytes", device.placement.transient_arena_bytes},
        {"max_live_bytes", device.placement.transient_max_live_bytes},
        {"ratio", device.placement.ratio()}}},
      {"peak", peak_json(device.peak)},
      {"phase_peaks", phases_json(device.phase_peaks)},
      {"largest", largest_json(device)},
      {"layers", layers_json(memory)},
      {"programs", programs_json(memory)},
      {"step_flops", phases_json(memory.step_flops)},
      {"step_ms", or_null(facts.step_ms)},
      {"tokens_per_s", or_null(facts.tokens_per_s())},
      {"rests_on", facts.rests_on.empty() ? Json(nullptr) : Json(facts.rests_on)},
      {"attention", attention_json(facts)},
      {"recipe", facts.recipe},
      {"chosen", facts.changed},
      {"chosen_recompute", chosen_json(facts)},
      {"runners_up", runners_up_json(facts)},
      {"advice", advice_json(facts)},
  };
  if (leaves_device(memory, facts)) {
    out["host_budget_bytes"] = or_null(facts.host_budget_bytes);
    out["host_context_bytes"] = facts.host_context_bytes;
    out["disk_budget_bytes"] = or_null(facts.disk_budget_bytes);
    out["spaces"] = spaces_json(memory);
    out["lanes"] = lanes_json(facts);
    out["sent_bytes"] = {{"inside_machine", facts.links.within},
                         {"to_other_machines", facts.links.between}};
    out["moves_rest_on"] = or_null(facts.moves_rest_on);
    out["disk_bytes_written_a_day"] = static_cast<int64_t>(facts.disk_bytes_written_a_day());
  }
  if (!facts.meshes.empty()) out["meshes"] = meshes_json(facts);
  if (!facts.stages.empty()) {
    out["stage"] = facts.stage;
    out["bubble"] = facts.bubble;
    out["stages"] = stages_json(facts);
  }
  if (facts.saves) {
    out["saves"] = {{"every", facts.saves->every},
                    {"bytes", facts.saves->bytes},
                    {"staging_bytes", facts.saves->staging},
                    {"disk_ms", facts.saves->disk_seconds * 1e3},
                    {"waits_ms", facts.saves->waits_seconds * 1e3},
                    {"beside_training", facts.saves->overlapped}};
  }
  return out;
}

}  // namespace snug
