#include "settings/settings.h"

#include <bit>
#include <cstdint>
#include <optional>

#include "settings/recipe_fields.h"

namespace snug {
namespace {

class Mixer {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void mix(const T& value) {
    uint64_t bits = 0;
    if constexpr (std::is_same_v<T, double>)
      bits = std::bit_cast<uint64_t>(value);
    else
      bits = static_cast<uint64_t>(value);
    hash_ ^= std::hash<uint64_t>{}(bits) + 0x9e3779b97f4a7c15 + (hash_ << 6) + (hash_ >> 2);
  }
  void mix(const std::optional<double>& value) { mix(value.value_or(-1)); }
  // Of what is larger, what tells settings apart in a search.
  void mix(const Mesh& mesh) { mix_all(mesh.pp, mesh.tp, mesh.chunks); }
  void mix(const Sharding& s) { mix_all(s.ranks, s.level, s.group); }
  void mix(const RecomputePolicy& p) {
    mix_all(p.kind, p.every, p.ratio, p.bytes, p.chosen.size());
  }
  void mix(const Offload& offload) { mix_all(offload.rules.size(), offload.ahead); }
  void mix(const HostUpdate& update) { mix_all(update.on, update.layers.size()); }
  void mix(const Adapters& adapters) { mix(adapters.rank); }
  void mix(const LossScale& scale) { mix_all(scale.dynamic, scale.start); }
  template <typename... T>
  void mix_all(const T&... values) {
    (mix(values), ...);
  }
  size_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0;
};

}  // namespace

size_t hash_of(const Settings& settings) {
  const auto& [build, recipe, math] = settings;
  Mixer mixer;
  const auto mix = [&](const auto&... fields) { mixer.mix_all(fields...); };
  {
    const auto& [batch, seq, attention, attention_chunk, chunked_loss, loss_chunk, fused_loss,
                 residual_in_matmul, packed, dropout] = build;
    mix(batch, seq, attention, attention_chunk, chunked_loss, loss_chunk, fused_loss,
        residual_in_matmul, packed, dropout);
  }
  {
    const auto& [deterministic, tf32, quick_autotune] = math;
    mix(deterministic, tf32, quick_autotune);
  }
  std::apply(mix, fields_of(recipe));
  return mixer.hash();
}

}  // namespace snug
