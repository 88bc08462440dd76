// Where a rank is among those of its job: a mesh pp x dp x tp. Pipeline stages are outermost; the ranks
// of one tensor-parallel group are neighbours, on one machine where they have room there.
//
//   const Mesh mesh{.pp = 2, .tp = 2, .stage = 1};
//   const Sharding dp{.ranks = 4, .stride = mesh.tp};
//   job_ranks_on("tp", mesh, dp);   // {8, 9}: the job's ranks that this one multiplies with
//
// The data-parallel axis is a Sharding (passes/sharding.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "passes/sharding.h"

namespace snug {

namespace mesh_axes {
constexpr std::string_view kTensor = "tp", kStages = "pp";
}

// The order of a stage's micro-batches (passes/pipeline_schedule.h).
enum class PipelineSchedule : uint8_t { one_forward_one_backward, zero_bubble };

struct Mesh {
  int64_t pp = 1, tp = 1;       // how many stages the layers are cut into, and ranks each matrix
  int64_t stage = 0, part = 0;  // this rank's
  int64_t chunks = 1;           // of layers that a stage has, with those of all others between them

  bool on() const { return pp > 1 || tp > 1; }
  bool is_first_stage() const { return stage == 0; }
  bool is_last_stage() const { return stage + 1 == pp; }
  // All chunks of all stages, in the order of the layers.
  int64_t pieces() const { return pp * chunks; }
  int64_t stage_of(int64_t piece) const { return piece % pp; }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// Of all three axes.
int64_t ranks_of(const Mesh& mesh, const Sharding& sharding);

// Sets this rank's coordinates on every axis.
void go_to_rank(int64_t job_rank, Mesh& mesh, Sharding& sharding);

// The job's ranks that a collective or message of this rank over that axis is among, in its order.
std::vector<int> job_ranks_on(std::string_view axis, const Mesh& mesh, const Sharding& sharding);

// Collectives among the ranks that have the same stage and data.
ops::Collective over_tensor(const Mesh& mesh);

}  // namespace snug
