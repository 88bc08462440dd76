#include "settings/mesh.h"

#include "base/number.h"
#include "settings/option_checks.h"
#include "settings/setting_text.h"

namespace snug {
namespace {

std::optional<int64_t>& axis_of(MeshChoice& mesh, std::string_view name, std::string_view option,
                                std::string_view whole) {
  if (name == "pp") return mesh.pp;
  if (name == "dp") return mesh.dp;
  if (name == "tp") return mesh.tp;
  throw usage_error("--{} {}: '{}' is no axis", option, whole, name)
      .hint("the axes are pp (stages), dp (samples) and tp (parts of each matrix): pp=2,dp=4,tp=2");
}

}  // namespace

MeshChoice MeshChoice::parse(std::string_view text, std::string_view option) {
  MeshChoice mesh;
  if (text.empty()) return mesh;
  for (const std::string_view part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    std::optional<int64_t>& axis = axis_of(mesh, name, option, text);
    int64_t size = 0;
    if (equals == std::string_view::npos || !read_number(part.substr(equals + 1), size) || size < 1)
      throw usage_error("--{} {}: '{}' is not an axis and its size, like tp=2", option, text, part);
    if (axis) throw usage_error("--{} {} names {} twice", option, text, name);
    axis = size;
  }
  return mesh;
}

std::string text(const MeshChoice& mesh) {
  std::vector<std::string> axes;
  if (mesh.pp) axes.push_back(fmt::format("pp={}", *mesh.pp));
  if (mesh.dp) axes.push_back(fmt::format("dp={}", *mesh.dp));
  if (mesh.tp) axes.push_back(fmt::format("tp={}", *mesh.tp));
  return join(axes, ",");
}

int64_t ranks_of(const Mesh& mesh, const Sharding& sharding) {
  return mesh.pp * sharding.ranks * mesh.tp;
}

void go_to_rank(int64_t job_rank, Mesh& mesh, Sharding& sharding) {
  mesh.part = job_rank % mesh.tp;
  sharding.stride = mesh.tp;
  sharding.rank = rank_on_axis(job_rank / mesh.tp % sharding.ranks, sharding);
  mesh.stage = job_rank / (mesh.tp * sharding.ranks);
}

}  // namespace snug
