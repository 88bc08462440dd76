// How ranks share the work: pipeline stages, data-parallel ranks, ranks that share each matrix.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "techniques/zero/settings.h"

namespace snug {

// --mesh: "pp=2,dp=4,tp=2"; an axis that is not named is 1, or for dp what the ranks leave.
struct MeshChoice {
  std::optional<int64_t> pp = {}, dp = {}, tp = {};

  bool given() const { return pp || dp || tp; }
  friend bool operator==(const MeshChoice&, const MeshChoice&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  static MeshChoice parse(std::string_view text, std::string_view option);
};
std::string text(const MeshChoice& mesh);

// The mesh as programs are made for it; the data-parallel axis is a Sharding.
struct Mesh {
  int64_t pp = 1, tp = 1;       // how many stages the layers are cut into, and ranks each matrix
  int64_t stage = 0, part = 0;  // this rank's
  int64_t chunks = 1;           // of layers that a stage has, with those of all others between them

  bool on() const { return pp > 1 || tp > 1; }
  bool is_first_stage() const { return stage == 0; }
  bool is_last_stage() const { return stage + 1 == pp; }
  // All chunks of all stages, in the order of the layers.
  int64_t virtual_stages() const { return pp * chunks; }
  int64_t stage_of(int64_t virtual_stage) const { return virtual_stage % pp; }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// Of all three axes.
int64_t ranks_of(const Mesh& mesh, const Sharding& sharding);
// Sets this rank's coordinates on every axis.
void go_to_rank(int64_t job_rank, Mesh& mesh, Sharding& sharding);

}  // namespace snug
