#include "support/rank_run.h"

#include <omp.h>

#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "comm/threads.h"
#include "ir/verifier.h"
#include "runtime/value_pieces.h"

namespace snug {
namespace {

// Groups of thread ranks: one for each lane that programs name.
class Groups {
 public:
  explicit Groups(int ranks) : ranks_(ranks) {}

  Communicator& end(std::string_view lane, int rank) {
    const std::lock_guard lock(mutex_);
    auto& group = groups_[std::string(lane)];
    if (!group) group = std::make_unique<ThreadGroup>(ranks_);
    if (!failure_.empty()) group->end(rank).abort(failure_);
    return group->end(rank);
  }

  void abort(const std::string& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
    for (auto& [lane, group] : groups_) group->end(0).abort(why);
  }

 private:
  int ranks_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<ThreadGroup>> groups_;
  std::string failure_;
};

bool is_state(const Value& value) {
  return value.owns_bytes() && value.scope == Scope::persistent &&
         (value.category == Category::params || value.category == Category::master ||
          value.category == Category::optimizer);
}

// What this rank has of the whole, at its place.
void collect(SmallRun& run, RankResult& result) {
  ValuePieces pieces(run.executor());
  for (size_t i = 0; i < run.module().values.size(); ++i) {
    const Value& value = run.module().values[i];
    if (!is_state(value)) continue;
    const int64_t size = size_of(value.type.dtype);
    std::vector<std::byte>& whole = result.weights[value.name];
    whole.resize(static_cast<size_t>(value.whole().elements() * size));
    int64_t at = value.shard_first * size;
    pieces.look({{static_cast<int32_t>(i)}, 0, value.elements_in_whole() * size},
                [&](std::span<const std::byte> next) {
                  std::ranges::copy(next, whole.begin() + at);
                  at += static_cast<int64_t>(next.size());
                });
  }
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
  const auto ranks = static_cast<int>(recipe.sharding.ranks);
  Groups groups(ranks);
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
        mine.sharding.rank = rank;
        ExecutorOptions o = options;
        o.group_of = [&, rank](std::string_view lane) -> Communicator& {
          return groups.end(lane, rank);
        };
        auto& run = runs[static_cast<size_t>(rank)];
        run = std::make_unique<SmallRun>(model, build, mine, o);
        RankResult& result = results[static_cast<size_t>(rank)];
        result.losses = run->losses(steps);
        result.evaluated = run->evaluate();
        for (const Space space : {Space::device, Space::host, Space::disk}) {
          result.planned += run->executor().planned_bytes(space);
          result.measured += run->executor().measured_bytes(space);
        }
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
  for (int rank = 0; rank < ranks; ++rank) {
    SmallRun& run = *runs[static_cast<size_t>(rank)];
    const RankResult& result = results[static_cast<size_t>(rank)];
    if (result.losses != all.losses || result.evaluated != all.evaluated)
      throw internal_error("rank {} has other losses", rank);
    if (rank > 0) {
      all.planned += result.planned;
      all.measured += result.measured;
    }
    collect(run, all);
    modules.push_back(&run.module());
  }
  verify_ranks(modules);
  all.state_bytes = state_bytes(*modules[0]);
  return all;
}

}  // namespace snug
