#include "recipe/mesh_options.h"

#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "settings/option_checks.h"

namespace snug {
namespace {

void agree(std::optional<int64_t>& axis, int64_t option, std::string_view name,
           const MeshChoice& mesh) {
  require_at_least(0, option, name);
  if (option == 0) return;
  if (axis && *axis != option)
    throw usage_error("--mesh {} and --{} {} contradict each other", text(mesh), name, option)
        .hint("leave one of them out");
  axis = option;
}

}  // namespace

MeshSizes mesh_for(const Options& o, int64_t ranks) {
  MeshChoice asked = o.mesh;
  agree(asked.tp, o.tp, "tp", o.mesh);
  agree(asked.pp, o.pp, "pp", o.mesh);
  MeshSizes mesh{
      .pp = asked.pp.value_or(1), .dp = asked.dp.value_or(1), .tp = asked.tp.value_or(1)};
  const int64_t others = checked_mul(mesh.pp, mesh.tp, "ranks of the mesh");
  if (ranks == 0) return mesh;
  if (!asked.dp && ranks % others == 0) {
    mesh.dp = ranks / others;
    return mesh;
  }
  if (checked_mul(others, mesh.dp, "ranks of the mesh") == ranks) return mesh;
  Error error = usage_error(
      "a mesh of pp={}, {}tp={} is for {}, and there are {}", mesh.pp,
      asked.dp ? fmt::format("dp={}, ", mesh.dp) : "", mesh.tp,
      asked.dp ? counted(mesh.ranks(), "rank") : fmt::format("a multiple of {} ranks", others),
      ranks);
  throw std::move(error).hint("sizes of a mesh multiply to the ranks (--ranks, --gpu NAMExN)");
}

bool leaves_mesh_open(const Options& o) {
  return !o.gpu.empty() && !o.mesh.given() && o.tp == 0 && o.pp == 0;
}

void require_sequences(const Options& o) {
  const int64_t readers = mesh_of(o).dp;
  if (o.global_batch == 0 || o.global_batch >= readers) return;
  throw usage_error("--global-batch {} over {} ranks: a rank has less than one sequence",
                    o.global_batch, readers)
      .hint("give each rank one at least, or take fewer ranks");
}

}  // namespace snug
