#include "support/rank_run.h"

#include <omp.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/rng.h"
#include "comm/threads.h"
#include "ir/order.h"
#include "ir/verifier.h"
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

// What this rank has of the whole, at its place. Where another had the same, they agree.
void collect(SmallRun& run, RankResult& result, std::set<std::pair<std::string, int64_t>>& seen) {
  ValuePieces pieces(run.executor());
  for (size_t i = 0; i < run.module().values.size(); ++i) {
    const Value& value = run.module().values[i];
    if (!is_state(value)) continue;
    const int64_t size = size_of(value.type.dtype);
    std::vector<std::byte>& whole = result.weights[value.name];
    whole.resize(static_cast<size_t>(value.whole().elements() * size));
    const bool again = !seen.emplace(value.name, value.shard_first).second;
    int64_t at = value.shard_first * size;
    pieces.look({{static_cast<int32_t>(i)}, 0, value.elements_in_whole() * size},
                [&](std::span<const std::byte> next) {
                  if (again && !std::ranges::equal(next, std::span(whole).subspan(
                                                             static_cast<size_t>(at), next.size())))
                    throw internal_error("ranks have other bytes of {}", value.name);
                  std::ranges::copy(next, whole.begin() + at);
                  at += static_cast<int64_t>(next.size());
                });
  }
}

// Shared values begin as zeros, with their padding; of others ops write the elements.
std::array<int64_t, kSpaces> written_bytes(const Module& module) {
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
        if (writes) write(id, module[id].type.bytes());
      });
  return out;
}

std::array<RankSpaceBytes, kSpaces> bytes_of(const SmallRun& run) {
  const NullRun followed = run_null(run.module());
  const std::array<int64_t, kSpaces> written = written_bytes(run.module());
  std::array<RankSpaceBytes, kSpaces> out;
  for (size_t s = 0; s < kSpaces; ++s) {
    const auto space = static_cast<Space>(s);
    const Executor& executor = run.executor();
    out[s] = {.planned = executor.planned_bytes(space),
              .allocated = executor.allocated_bytes(space),
              .measured = executor.measured_bytes(space),
              .followed = followed.high_water[s],
              .written = written[s]};
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
        if (o.delay_seed) o.delay_seed = mix(*o.delay_seed + static_cast<uint64_t>(rank));
        o.group_of = [&, rank, mesh = mine.mesh, sharding = mine.sharding](
                         std::string_view lane, std::string_view axis) -> Communicator& {
          return watch.end(rank, lane, groups.end(lane, job_ranks_on(axis, mesh, sharding), rank));
        };
        auto& run = runs[static_cast<size_t>(rank)];
        run = std::make_unique<SmallRun>(model, build, mine, o);
        RankResult& result = results[static_cast<size_t>(rank)];
        result.losses = run->losses(steps);
        run->feed_last();
        result.evaluated = run->evaluate();
        result.bytes.push_back(bytes_of(*run));
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
  std::set<std::pair<std::string, int64_t>> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    SmallRun& run = *runs[static_cast<size_t>(rank)];
    const RankResult& result = results[static_cast<size_t>(rank)];
    if (result.losses != all.losses || result.evaluated != all.evaluated)
      throw internal_error("rank {} has other losses", rank);
    if (rank > 0) all.bytes.push_back(result.bytes[0]);
    collect(run, all, seen);
    modules.push_back(&run.module());
  }
  verify_ranks(modules);
  all.state_bytes = state_bytes(*modules[0]);
  return all;
}

}  // namespace snug
