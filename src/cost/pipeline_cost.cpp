#include "cost/pipeline_cost.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "ir/lifetime.h"
#include "ir/op_def.h"
#include "ir/order.h"

namespace snug {
namespace {

// A program of a stage, with what does not change from run to run.
struct Timed {
  const Program* program;
  Order order;
  std::vector<double> seconds;
};

// Where a stage is in its step.
class StageClock {
 public:
  StageClock(const Module& module, const ProgramSeconds& seconds) {
    for (const Repeat& repeat : module.step) {
      for (const std::string& name : repeat.programs)
        if (!programs_.contains(name)) {
          const Program& program = module.program(name);
          programs_.emplace(name,
                            Timed{&program, Order(module, program), seconds(module, program)});
        }
      for (int64_t i = 0; i < repeat.times; ++i)
        for (const std::string& name : repeat.programs) runs_.push_back(&programs_.at(name));
    }
    begin();
    skip_ended();
  }

  size_t lanes() const { return next_.size(); }
  bool has_ended() const { return at_ == runs_.size(); }
  double end() const { return begun_; }
  double computes() const { return computes_; }

  // The lane's next op, where all that it waits for in this stage is known; nullptr: there is none.
  const Op* ready(size_t lane) const {
    if (has_ended() || next_[lane] == ops_on(lane).size()) return nullptr;
    const int32_t at = ops_on(lane)[next_[lane]];
    for (const int32_t other : now().order.waits(at))
      if (!ends_[static_cast<size_t>(other)]) return nullptr;
    return &now().program->ops[static_cast<size_t>(at)];
  }
  // When the op that is ready may begin.
  double begins(size_t lane) const {
    double time = free_[lane];
    for (const int32_t other : now().order.waits(ops_on(lane)[next_[lane]]))
      time = std::max(time, *ends_[static_cast<size_t>(other)]);
    return time;
  }
  double seconds(size_t lane) const {
    return now().seconds[static_cast<size_t>(ops_on(lane)[next_[lane]])];
  }
  void end_at(size_t lane, double time) {
    if (now().order.lane_name(static_cast<int32_t>(lane)) == kComputeLane)
      computes_ += seconds(lane);
    ends_[static_cast<size_t>(ops_on(lane)[next_[lane]++])] = time;
    free_[lane] = time;
    latest_ = std::max(latest_, time);
    skip_ended();
  }

 private:
  const Timed& now() const { return *runs_[at_]; }
  std::span<const int32_t> ops_on(size_t lane) const {
    return now().order.ops_on(static_cast<int32_t>(lane));
  }
  void begin() {
    if (has_ended()) return;
    next_.assign(static_cast<size_t>(now().order.lanes()), 0);
    free_.assign(next_.size(), begun_);
    ends_.assign(now().program->ops.size(), std::nullopt);
  }
  // A program begins when the one before it has ended on every lane.
  void skip_ended() {
    const auto ended = [&] {
      for (size_t lane = 0; lane < lanes(); ++lane)
        if (next_[lane] < ops_on(lane).size()) return false;
      return true;
    };
    while (!has_ended() && ended()) {
      begun_ = latest_ = std::max(latest_, begun_);
      ++at_;
      begin();
    }
  }

  std::map<std::string, Timed> programs_;
  std::vector<const Timed*> runs_;
  size_t at_ = 0;
  double begun_ = 0, latest_ = 0, computes_ = 0;
  std::vector<size_t> next_;                 // by lane
  std::vector<double> free_;                 // by lane: since when
  std::vector<std::optional<double>> ends_;  // by op of this program
};

bool is_message(const Op& op) { return op.def->comm == Comm::send || op.def->comm == Comm::recv; }

// Where the other end of a message is at it.
std::optional<size_t> other_end(const StageClock& stage, const Op& op, int64_t from) {
  const Comm other = op.def->comm == Comm::send ? Comm::recv : Comm::send;
  for (size_t lane = 0; lane < stage.lanes(); ++lane) {
    const Op* there = stage.ready(lane);
    if (there != nullptr && there->def->comm == other && there->lane == op.lane &&
        there->attrs.i("peer") == from)
      return lane;
  }
  return {};
}

bool go_on(std::vector<StageClock>& stages, size_t stage, size_t lane) {
  StageClock& mine = stages[stage];
  if (lane >= mine.lanes()) return false;
  const Op* op = mine.ready(lane);
  if (op == nullptr) return false;
  if (!is_message(*op)) {
    mine.end_at(lane, mine.begins(lane) + mine.seconds(lane));
    return true;
  }
  StageClock& other = stages.at(static_cast<size_t>(op->attrs.i("peer")));
  const auto there = other_end(other, *op, static_cast<int64_t>(stage));
  if (!there) return false;
  const double end = std::max(mine.begins(lane), other.begins(*there)) + mine.seconds(lane);
  mine.end_at(lane, end);
  other.end_at(*there, end);
  return true;
}

}  // namespace

double PipelineCost::bubble() const {
  const double all = step_seconds * static_cast<double>(computes.size());
  return all > 0 ? 1 - std::accumulate(computes.begin(), computes.end(), 0.0) / all : 0;
}

PipelineCost pipeline_cost(std::span<const Module* const> stages, const ProgramSeconds& seconds) {
  std::vector<StageClock> clocks;
  for (const Module* module : stages) clocks.emplace_back(*module, seconds);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t stage = 0; stage < clocks.size(); ++stage)
      for (size_t lane = 0; lane < clocks[stage].lanes(); ++lane)
        while (go_on(clocks, stage, lane)) moved = true;
  }
  PipelineCost cost;
  for (const StageClock& clock : clocks) {
    if (!clock.has_ended()) throw internal_error("the stages of the pipeline wait for each other");
    cost.step_seconds = std::max(cost.step_seconds, clock.end());
    cost.computes.push_back(clock.computes());
  }
  return cost;
}

}  // namespace snug
