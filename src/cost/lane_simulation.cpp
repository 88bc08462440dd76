#include "cost/lane_simulation.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "ir/lifetime.h"
#include "ir/op_def.h"

namespace snug {
namespace {

bool is_message(const Op& op) { return op.def->comm == Comm::send || op.def->comm == Comm::recv; }

// Where a rank is in its runs.
class RankClock {
 public:
  explicit RankClock(const RankRuns& runs) : runs_(runs) {
    begin_run();
    skip_ended();
  }

  size_t lanes() const { return lanes_.size(); }
  bool has_ended() const { return at_ == runs_.size(); }
  const TimedProgram& now() const { return *runs_[at_]; }
  int32_t op_on(size_t lane) const { return ops_on(lane)[lanes_[lane].next]; }

  // The lane's next op, where it may begin; nullptr: there is none.
  const Op* ready(size_t lane) const {
    if (has_ended() || lanes_[lane].runs || lanes_[lane].next == ops_on(lane).size())
      return nullptr;
    for (const int32_t other : now().order.waits(op_on(lane)))
      if (!ended_[static_cast<size_t>(other)]) return nullptr;
    return &now().program->ops[static_cast<size_t>(op_on(lane))];
  }

  bool computes(size_t lane) const {
    return now().order.lane_name(static_cast<int32_t>(lane)) == kComputeLane;
  }
  double seconds(size_t lane) const { return now().seconds[static_cast<size_t>(op_on(lane))]; }
  double begun(size_t lane) const { return lanes_[lane].begun; }

  void begin(size_t lane, double time) {
    lanes_[lane].runs = true;
    lanes_[lane].begun = time;
  }
  void end(size_t lane) {
    ended_[static_cast<size_t>(op_on(lane))] = true;
    lanes_[lane].runs = false;
    ++lanes_[lane].next;
    skip_ended();
  }

 private:
  struct Lane {
    size_t next = 0;
    bool runs = false;
    double begun = 0;
  };

  std::span<const int32_t> ops_on(size_t lane) const {
    return now().order.ops_on(static_cast<int32_t>(lane));
  }
  void begin_run() {
    if (has_ended()) return;
    lanes_.assign(static_cast<size_t>(now().order.lanes()), {});
    ended_.assign(now().program->ops.size(), false);
  }
  void skip_ended() {
    const auto ended = [&] {
      for (size_t lane = 0; lane < lanes(); ++lane)
        if (lanes_[lane].next < ops_on(lane).size()) return false;
      return true;
    };
    while (!has_ended() && ended()) {
      ++at_;
      begin_run();
    }
  }

  const RankRuns& runs_;
  size_t at_ = 0;
  std::vector<Lane> lanes_;
  std::vector<bool> ended_;  // by op of this program
};

// All that runs goes at one pace, so what has run longest in work done is what ends first: time is
// counted in work (`work_`) and in seconds (`time_`).
class Simulation {
 public:
  Simulation(const std::vector<RankRuns>& ranks, const CoreShare& share, const OpHasRun& has_run)
      : share_(share), has_run_(has_run) {
    for (const RankRuns& runs : ranks) ranks_.emplace_back(runs);
  }

  double run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) begin_ready(rank);
    while (!running_.empty()) end_next();
    for (const RankClock& rank : ranks_)
      if (!rank.has_ended()) throw internal_error("the lanes of a step wait for each other");
    return time_;
  }

 private:
  struct Running {
    double ends = 0;  // in work
    size_t rank = 0, lane = 0;
    bool operator>(const Running& o) const {
      return std::tie(ends, rank, lane) > std::tie(o.ends, o.rank, o.lane);
    }
  };

  double asks_for(size_t rank, size_t lane) const {
    return ranks_[rank].computes(lane) ? share_.compute : 1;
  }

  void begin(size_t rank, size_t lane, double seconds) {
    asked_ += asks_for(rank, lane);
    ranks_[rank].begin(lane, time_);
    running_.push({work_ + seconds, rank, lane});
  }

  void begin_ready(size_t rank) {
    for (size_t lane = 0; lane < ranks_[rank].lanes(); ++lane) {
      const Op* op = ranks_[rank].ready(lane);
      if (op == nullptr) continue;
      const double seconds = ranks_[rank].seconds(lane);
      if (is_message(*op) && ranks_.size() > 1) {
        const auto peer = static_cast<size_t>(op->attrs.i("peer"));
        const auto there = other_end(ranks_.at(peer), *op, static_cast<int64_t>(rank));
        if (!there) continue;
        begin(peer, *there, seconds);
      }
      begin(rank, lane, seconds);
    }
  }

  // Where the other end of a message is at it.
  static std::optional<size_t> other_end(const RankClock& peer, const Op& op, int64_t from) {
    const Comm other = op.def->comm == Comm::send ? Comm::recv : Comm::send;
    for (size_t lane = 0; lane < peer.lanes(); ++lane) {
      const Op* there = peer.ready(lane);
      if (there != nullptr && there->def->comm == other && there->lane == op.lane &&
          there->attrs.i("peer") == from)
        return lane;
    }
    return {};
  }

  void end_next() {
    const Running next = running_.top();
    running_.pop();
    time_ += (next.ends - work_) * std::max(1.0, asked_ / share_.cores);
    work_ = next.ends;
    asked_ -= asks_for(next.rank, next.lane);
    RankClock& rank = ranks_[next.rank];
    has_run_(next.rank, rank.now(), rank.op_on(next.lane), rank.begun(next.lane), time_);
    rank.end(next.lane);
    begin_ready(next.rank);
  }

  const CoreShare& share_;
  const OpHasRun& has_run_;
  std::vector<RankClock> ranks_;
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running_;
  double work_ = 0, time_ = 0, asked_ = 0;
};

}  // namespace

double simulate_lanes(const std::vector<RankRuns>& ranks, const CoreShare& share,
                      const OpHasRun& has_run) {
  return Simulation(ranks, share, has_run).run();
}

std::vector<double> seconds_sharing(const Module& module, const Program& program,
                                    std::vector<double> seconds, const CoreShare& share) {
  const TimedProgram timed(module, program, std::move(seconds));
  std::vector<double> out(timed.seconds.size());
  simulate_lanes({{&timed}}, share,
                 [&](size_t, const TimedProgram&, int32_t op, double begin, double end) {
                   out[static_cast<size_t>(op)] = end - begin;
                 });
  return out;
}

}  // namespace snug
