// What `snug plan` says: the same breakdown as a table for a person and as an object for a program.
//
//   PlanFacts facts{.model = "gpt2", .batch = 8, .seq = 1024, .budget_bytes =
//   parse_bytes("24GiB")}; fmt::print("{}", render_plan(memory, facts, stdout_is_terminal()));
//   fmt::print("{}\n", plan_json(memory, facts).dump());
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/link_bytes.h"
#include "cost/step_cost.h"
#include "ir/space_bytes.h"
#include "placement/breakdown.h"
#include "search/plan_run.h"

namespace snug {

// A change to the run, ready to paste, and what it would give.
struct Advice {
  std::string change;  // "--optimizer adamw8bit"
  std::string pins;    // flags that pin what the search chose for it: "--batch 4 --accum 2"
  Effect effect = Effect::exact;
  int64_t peak_bytes = 0;   // of the arena
  int64_t saves_bytes = 0;  // below zero: it takes more
  std::optional<double> step_ms;
  double slower = 0;  // time for a token, as a part of what it is now; below zero: faster
  int64_t host_bytes = 0, disk_bytes = 0;  // of these arenas

  SpaceBytes needs() const { return {{peak_bytes, host_bytes, disk_bytes}}; }
};

// Whose kernels compute attention on a GPU.
struct AttentionFacts {
  Server by = Server::cudnn;
  std::string why;      // it is not cuDNN: "dropout"
  std::string instead;  // plain tiles: the flags that would use tensor cores
  double share = 0;     // of the step's time, modelled
  double times = 1;     // plain tiles: how many times longer than tensor cores they take, about
};

// Checkpoints on the way.
struct SaveFacts {
  std::string every;         // "20 steps", "10 m 00 s"
  int64_t bytes = 0;         // of one
  int64_t staging = 0;       // of host memory, outside its arena
  double disk_seconds = 0;   // to write one
  double waits_seconds = 0;  // of training, for one
  bool overlapped = true;    // training continues meanwhile
};

// What the breakdown cannot know: the words of the question, and what was predicted but bytes.
struct PlanFacts {
  std::string model;
  std::string device;  // what it is for: "cpu", "NVIDIA H200"; empty: not said
  int64_t batch = 0;   // sequences per micro-batch
  int64_t seq = 0;
  int64_t accum = 1;      // micro-batches per step
  int64_t sequences = 0;  // per step; 0: batch x accum
  int64_t ranks = 1;
  int64_t model_params = 0;  // of the whole, where ranks divide them; 0: all are here
  nlohmann::ordered_json recipe = nlohmann::ordered_json::object();  // the resolved options
  std::vector<std::string> headline;    // the options worth a word in the table's head; empty: all
  std::optional<int64_t> budget_bytes;  // for the arena and the context together
  bool within_free_memory = false;      // the budget is what is free on the GPU
  std::optional<int64_t> host_budget_bytes, disk_budget_bytes;
  int64_t context_bytes = 0;       // of the device's driver and libraries, outside the arena
  bool host_is_pinned = false;     // its page tables take device memory outside the arena
  int64_t host_context_bytes = 0;  // of uploads, loading and saving, outside the host's arena
  std::optional<ChosenRecompute> chosen;
  std::vector<std::string> changed;  // flags that the search chose in addition to recompute
  std::vector<RunnerUp> runners_up;  // what else it considered, the fastest first
  bool explain = false;              // are the runners-up shown?
  std::optional<double> step_ms;     // modelled
  std::string rests_on;              // what the time was modelled from
  std::optional<AttentionFacts> attention;
  std::vector<LaneCost> lanes;  // where there are several, or bytes outside the device
  LinkBytes links;              // of one rank, in a step
  std::string moves_rest_on;    // what their times were modelled from, beyond the device's own
  std::vector<Advice> advice;   // the best first
  std::vector<StagePlan> stages = {};  // of a pipeline; what the breakdown is of, and its bubble
  int64_t stage = 0;
  double bubble = 0, ideal_bubble = 0;
  std::vector<MeshRow> meshes = {};  // where they were searched: the choice first
  std::optional<SaveFacts> saves;

  int64_t tokens_per_step() const;
  std::optional<double> tokens_per_s() const;
  // At the modelled speed, without a pause; 0 where nothing is written to disk.
  double disk_bytes_written_a_day() const;
  // Whether the options leave out where disk is.
  bool needs_offload_dir() const;
  // What the budget leaves for the arena, where there is one.
  std::optional<int64_t> arena_budget() const;
  // Of the arenas.
  Limits limits() const;
  // What they leave of it after such arenas and staging for checkpoints. Below zero: too much.
  SpaceBytes left_by(const SpaceBytes& arenas) const {
    return limits().left_by(arenas + staging());
  }
  // Of the host's memory, where it is pinned.
  int64_t page_table_bytes(const SpaceBytes& arenas) const {
    return host_is_pinned ? snug::page_table_bytes((arenas + staging())[Space::host]) : 0;
  }
  SpaceBytes staging() const { return {{0, saves ? saves->staging : 0, 0}}; }
};

// By enough to be worth a word.
inline bool is_faster(const Advice& a) { return a.slower < -0.01; }

// "exact", "rounding", "learning"
std::string_view name_of(Effect effect);

// In every space.
bool fits(const MemoryBreakdown& memory, const PlanFacts& facts);

// "cuDNN's kernels, 7 % of the step", "plain tiles (fp32 without --tf32), 46 % of the step: ...".
std::string attention_text(const AttentionFacts& attention);

// At most 100 columns. colour: use terminal colours.
std::string render_plan(const MemoryBreakdown& memory, const PlanFacts& facts, bool colour);

// The fields that docs/command-line.md says to rely on, and where every number comes from.
nlohmann::ordered_json plan_json(const MemoryBreakdown& memory, const PlanFacts& facts);

}  // namespace snug
