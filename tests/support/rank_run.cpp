#include "support/rank_run.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/rng.h"
#include "comm/threads.h"
#include "ir/order.h"
#include "ir/tensor_cut.h"
#include "ir/verifier.h"
#include "passes/mesh.h"
#include "passes/shared_names.h"
#include "runtime/null_executor.h"
#include "runtime/value_pieces.h"
#include "support/rank_watch.h"

namespace snug {
namespace {

// Groups of thread ranks: one for each lane that programs name, and for those that its axis is among.
class Groups {
 public:
  Communicator& end(std::string_view lane, const std::vector<int>& members, int rank) {
    const std::lock_guard lock(mutex_);
    auto& group = groups_[{std::string(lane), members}];
    if (!group) group = std::make_unique<ThreadGroup>(static_cast<int>(members.size()));
    Communicator& end =
        group->end(static_cast<int>(std::ranges::find(members, rank) - members.begin()));
    if (!failure_.empty()) end.abort(failure_);
    return end;
  }

  void abort(const std::string& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
    for (auto& [lane, group] : groups_) group->end(0).abort(why);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<int>>, std::unique_ptr<ThreadGroup>> groups_;
  std::string failure_;
};

bool is_state(const Value& value) {
  return value.owns_bytes() && value.scope == Scope::persistent &&
         (value.category == Category::params || value.category == Category::master ||
          value.category == Category::optimizer);
}

using Weights = std::map<std::string, std::vector<std::byte>>;
using Seen = std::set<std::pair<std::string, int64_t>>;  // by value: where in the whole

// What this rank has of the whole, at its place. Where another had the same, they agree.
void collect(SmallRun& run, const Value& value, ValueId id, Weights& weights, Seen& seen) {
  const int64_t size = size_of(value.type.dtype);
  std::vector<std::byte>& whole = weights[value.name];
  whole.resize(static_cast<size_t>(logical_shape(run.module(), value).elements() * size));
  std::vector<std::byte> here;
  ValuePieces(run.executor())
      .look({id, 0, value.elements_in_whole() * size}, [&](std::span<const std::byte> next) {
        here.insert(here.end(), next.begin(), next.end());
      });
  const int64_t first = value.shard_first;
  for_runs(tensor_cut_of(run.module(), value), first, first + value.elements_in_whole(),
           [&](const WholeRun& w) {
             const auto mine =
                 std::span(here).subspan(static_cast<size_t>((w.first - first) * size),
                                         static_cast<size_t>(w.elements * size));
             const auto there = whole.begin() + w.whole_first * size;
             if (!seen.emplace(value.name, w.whole_first).second &&
                 !std::equal(mine.begin(), mine.end(), there))
               throw internal_error("ranks have other bytes of {}", value.name);
             std::ranges::copy(mine, there);
           });
}

void collect_state(SmallRun& run, Weights& weights, Seen& seen) {
  for (size_t i = 0; i < run.module().values.size(); ++i) {
    const Value& value = run.module().values[i];
    if (is_state(value)) collect(run, value, {static_cast<int32_t>(i)}, weights, seen);
  }
}

// Gradients of which this rank has the sum, at the end of a step.
Weights gradients_of(SmallRun& run, const Recipe& recipe) {
  Weights out;
  Seen seen;
  const bool partly = recipe.sharding.on() && recipe.sharding.level == 1;
  for (size_t i = 0; i < run.module().values.size(); ++i) {
    const Value& value = run.module().values[i];
    if (value.category == Category::grads && value.scope == Scope::step && value.owns_bytes() &&
        value.parameter.valid() && value.type.dtype == Dtype::f32 && !partly)
      collect(run, value, {static_cast<int32_t>(i)}, out, seen);
  }
  return out;
}

// Elements that a rank does not have are zeros there.
void put_together(const Weights& mine, std::map<std::string, std::vector<float>>& all) {
  for (const auto& [name, bytes] : mine) {
    std::vector<float>& whole = all[name];
    whole.resize(bytes.size() / sizeof(float));
    for (size_t i = 0; i < whole.size(); ++i) {
      float next = 0;
      std::memcpy(&next, bytes.data() + i * sizeof(float), sizeof(float));
      if (next != 0) whole[i] = next;
    }
  }
}

float norm_after(SmallRun& run) {
  return run.executor().read_scalar<float>(run.executor().shared(shared_names::kGradNorm));
}

// What an op made, seen by another as it is or as a view.
ValueId made_as(const Module& module, const Program& program, ValueId seen) {
  const bool is_made = std::ranges::any_of(program.ops, [&](const Op& op) {
    return std::ranges::find(op.outputs, seen) != op.outputs.end();
  });
  return is_made || !module[seen].base.valid() ? seen : module[seen].base;
}

// Of what an op writes for certain: where the last of it ends. What is exchanged may be padded: no
// op has made the last elements of the last blocks; their ranks receive what was there.
int64_t end_of_written(const Module& module, const Program& program, const Op& op, ValueId out,
                       int64_t rank) {
  const int64_t bytes = module[out].type.bytes();
  if (op.def->collective != CollectiveKind::exchange) return bytes;
  const int64_t block = bytes / op.attrs.i("ranks");
  const int64_t made = module[made_as(module, program, op.inputs[0])].type.bytes();
  const int64_t mine = std::clamp<int64_t>(made - rank * block, 0, block);
  return mine == 0 ? 0 : bytes - block + mine;
}

// Without padding that is exchanged for a rank, its place among those that read other samples; with all of it
// for none. Shared values begin as zeros, with their padding; of others ops write the elements.
std::array<int64_t, kSpaces> written_bytes(const Module& module, std::optional<int64_t> rank) {
  const std::vector<Extent> extents = extents_of(module);
  std::array<int64_t, kSpaces> out{};
  const auto write = [&](ValueId id, int64_t bytes) {
    const Extent& extent = extents[static_cast<size_t>(id.index)];
    const Value& root = module[extent.root];
    int64_t& end = out[static_cast<size_t>(root.space)];
    end = std::max(end, *root.offset + extent.begin + bytes);
  };
  for (int32_t i = 0; std::cmp_less(i, module.values.size()); ++i) {
    const Value& value = module[ValueId{i}];
    if (value.shared() && value.owns_bytes()) write({i}, value.storage_bytes());
  }
  for (const Program& program : module.programs)
    for (const Op& op : program.ops)
      for_each_access(op, [&](ValueId id, bool writes) {
        if (writes)
          write(id,
                rank ? end_of_written(module, program, op, id, *rank) : module[id].type.bytes());
      });
  return out;
}

std::array<RankSpaceBytes, kSpaces> bytes_of(const SmallRun& run, int64_t rank) {
  const NullRun followed = run_null(run.module());
  const std::array<int64_t, kSpaces> written = written_bytes(run.module(), {});
  const std::array<int64_t, kSpaces> certain = written_bytes(run.module(), rank);
  std::array<RankSpaceBytes, kSpaces> out;
  for (size_t s = 0; s < kSpaces; ++s) {
    const auto space = static_cast<Space>(s);
    const Executor& executor = run.executor();
    out[s] = {.planned = executor.planned_bytes(space),
              .allocated = executor.allocated_bytes(space),
              .measured = executor.measured_bytes(space),
              .followed = followed.high_water[s],
              .written = written[s],
              .certain = certain[s]};
  }
  return out;
}

int64_t state_bytes(const Module& module) {
  int64_t bytes = 0;
  for (const Value& value : module.values) {
    const bool gradient = value.category == Category::grads && value.shared();
    if (value.owns_bytes() && (gradient || is_state(value))) bytes += value.storage_bytes();
  }
  return bytes;
}

}  // namespace

RankResult run_ranks(const std::string& model, const BuildOptions& build, const Recipe& recipe,
                     int steps, const ExecutorOptions& options) {
  const auto ranks = static_cast<int>(ranks_of(recipe.mesh, recipe.sharding));
  Groups groups;
  RankWatch watch(60, [&](const std::string& why) { groups.abort(why); });
  std::vector<RankResult> results(static_cast<size_t>(ranks));
  std::vector<Weights> gradients(static_cast<size_t>(ranks));
  std::vector<std::unique_ptr<SmallRun>> runs(static_cast<size_t>(ranks));
  std::exception_ptr failure;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      omp_set_num_threads(1);
      try {
        Recipe mine = recipe;
        go_to_rank(rank, mine.mesh, mine.sharding);
        ExecutorOptions o = options;
        if (o.test.delay_seed)
          o.test.delay_seed = mix(*o.test.delay_seed + static_cast<uint64_t>(rank));
        o.group_of = [&, rank, mesh = mine.mesh, sharding = mine.sharding](
                         std::string_view lane, std::string_view axis) -> Communicator& {
          return watch.end(rank, lane, groups.end(lane, job_ranks_on(axis, mesh, sharding), rank));
        };
        auto& run = runs[static_cast<size_t>(rank)];
        run = std::make_unique<SmallRun>(model, build, mine, o);
        RankResult& result = results[static_cast<size_t>(rank)];
        for (int step = 0; step < steps; ++step) {
          result.losses.push_back(run->step());
          result.norms.push_back(norm_after(*run));
          if (step == 0) gradients[static_cast<size_t>(rank)] = gradients_of(*run, mine);
        }
        run->feed_last();
        result.evaluated = run->evaluate();
        result.bytes.push_back(bytes_of(*run, mine.sharding.rank));
      } catch (const std::exception& e) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        groups.abort(fmt::format("rank {}: {}", rank, e.what()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);

  RankResult all = results[0];
  std::vector<const Module*> modules;
  Seen seen;
  for (int rank = 0; rank < ranks; ++rank) {
    SmallRun& run = *runs[static_cast<size_t>(rank)];
    const RankResult& result = results[static_cast<size_t>(rank)];
    if (result.losses != all.losses || result.evaluated != all.evaluated)
      throw internal_error("rank {} has other losses", rank);
    if (rank > 0) all.bytes.push_back(result.bytes[0]);
    if (result.norms != all.norms) throw internal_error("rank {} has another norm", rank);
    collect_state(run, all.weights, seen);
    put_together(gradients[static_cast<size_t>(rank)], all.gradients);
    modules.push_back(&run.module());
  }
  verify_ranks(modules);
  all.state_bytes = state_bytes(*modules[0]);
  return all;
}

}  // namespace snug
