// A rendezvous simulation: every rank's lanes advance as Order lets them, and an op that goes to
// other ranks ends when all of its group are at it. One order of events represents all: a lane that
// may advance stays able to, whatever the others do, so either every timing reaches the end or none
// does.
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "ir/order.h"
#include "ir/verifier.h"

namespace snug {
namespace {

std::string types_text(const Module& module, const std::vector<ValueId>& ids) {
  std::vector<std::string> types;
  for (ValueId id : ids) types.push_back(id.valid() ? module[id].type.text() : "nothing");
  return fmt::format("{}", fmt::join(types, ", "));
}

std::string name_text(const Op& op) { return fmt::format("{} '{}'", op.def->kind, op.name); }

// What all ranks of a group have in common; of a message what both ends have.
std::string content_text(const Module& module, const Op& op) {
  const std::string number =
      fmt::format("number {} of axis {}", op.attrs.i("seq"), op.attrs.s("axis"));
  switch (op.def->comm) {
    case Comm::send:
      return fmt::format("{}, {}", number, types_text(module, op.inputs));
    case Comm::recv:
      return fmt::format("{}, {}", number, types_text(module, op.outputs));
    default:
      return fmt::format(
          "{} ({}{}{}, {} to {})", name_text(op), number,
          op.attrs.has("ranks") ? fmt::format(", {} ranks", op.attrs.i("ranks")) : "",
          op.attrs.has("stride") ? fmt::format(" by {}", op.attrs.i("stride")) : "",
          types_text(module, op.inputs), types_text(module, op.outputs));
  }
}

bool is_message(const Op& op) { return op.def->comm == Comm::send || op.def->comm == Comm::recv; }

// The ranks that an op of one of them is for: so many, at equal distances, all where it says none.
struct Group {
  size_t first = 0, stride = 1, ranks = 0;
  size_t operator[](size_t coordinate) const { return first + coordinate * stride; }
  size_t coordinate_of(size_t rank) const { return (rank - first) / stride; }
};

Group group_of(size_t rank, const Op& op, size_t ranks) {
  const auto n = static_cast<size_t>(op.attrs.i("ranks", static_cast<int64_t>(ranks)));
  const auto stride = static_cast<size_t>(op.attrs.i("stride", 1));
  return {rank - rank / stride % n * stride, stride, n};
}

// How a rank runs a program: its lanes concurrently, or, where every op is inspected, one op after
// another.
enum class Way : uint8_t { lanes, list };

// A rank's place in a program, or in several that follow each other.
class RankPlace {
 public:
  RankPlace(const Module& module, std::vector<const Program*> programs, Way way)
      : module_(module), programs_(std::move(programs)), way_(way) {
    begin();
    skip_ended();
  }

  const Module& module() const { return module_; }
  size_t lanes() const { return next_.size(); }
  // Where that op would run; no lane of this rank when it has none of that name.
  size_t lane_of(const Op& op) const {
    return way_ == Way::list ? 0 : static_cast<size_t>(order_->lane_index(op.lane));
  }

  // nullptr: the lane has ended.
  const Op* next(size_t lane) const {
    if (lane >= lanes() || next_[lane] == ops_on(lane).size()) return nullptr;
    return &op(ops_on(lane)[next_[lane]]);
  }
  // An op of another lane that the next one waits for; nullptr: none.
  const Op* awaited(size_t lane) const {
    if (way_ == Way::list) return nullptr;
    for (const int32_t other : order_->waits(ops_on(lane)[next_[lane]]))
      if (!has_ended(other)) return &op(other);
    return nullptr;
  }
  // The next op, when it waits for nothing in this rank.
  const Op* ready(size_t lane) const {
    return next(lane) != nullptr && awaited(lane) == nullptr ? next(lane) : nullptr;
  }
  void go_on(size_t lane) {
    ++next_[lane];
    skip_ended();
  }

 private:
  const Program& program() const { return *programs_[at_]; }
  const Op& op(int32_t at) const { return program().ops[static_cast<size_t>(at)]; }
  std::span<const int32_t> ops_on(size_t lane) const {
    return way_ == Way::list ? all_ : order_->ops_on(static_cast<int32_t>(lane));
  }
  bool has_ended(int32_t at) const {
    const auto lane = static_cast<size_t>(order_->lane_of(at));
    return next_[lane] > 0 && ops_on(lane)[next_[lane] - 1] >= at;
  }

  void begin() {
    if (way_ == Way::list) {
      all_.resize(program().ops.size());
      std::iota(all_.begin(), all_.end(), 0);
      next_.assign(1, 0);
    } else {
      if (at_ == 0 || programs_[at_] != programs_[at_ - 1]) order_.emplace(module_, program());
      next_.assign(static_cast<size_t>(order_->lanes()), 0);
    }
  }
  // A program begins when all lanes of the one before it have ended.
  void skip_ended() {
    const auto has_ended = [&] {
      for (size_t lane = 0; lane < lanes(); ++lane)
        if (next(lane) != nullptr) return false;
      return true;
    };
    while (at_ + 1 < programs_.size() && has_ended()) {
      ++at_;
      begin();
    }
  }

  const Module& module_;
  std::vector<const Program*> programs_;
  size_t at_ = 0;
  std::optional<Order> order_;  // of lanes
  Way way_;
  std::vector<int32_t> all_;
  std::vector<size_t> next_;  // by lane
};

class Rendezvous {
 public:
  // `where`: what faults say. By rank: the programs that it runs.
  Rendezvous(std::span<const Module* const> ranks, std::string where, Way way,
             const std::function<std::vector<const Program*>(const Module&)>& programs)
      : where_(std::move(where)), way_(way) {
    for (const Module* module : ranks) ranks_.emplace_back(*module, programs(*module), way);
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank)
        for (size_t lane = 0; lane < ranks_[rank].lanes(); ++lane)
          while (go_on(rank, lane)) moved = true;
    }
    require_all_ended();
  }

 private:
  struct Place {
    size_t rank, lane;
  };

  bool go_on(size_t rank, size_t lane) {
    const Op* op = ranks_[rank].ready(lane);
    if (op == nullptr) return false;
    switch (op->def->comm) {
      case Comm::none:
        ranks_[rank].go_on(lane);
        return true;
      case Comm::collective:
        return meet(rank, *op);
      case Comm::send:
        return hand_over({rank, lane}, *op);
      case Comm::recv:
        break;  // the sender's end does both
    }
    return false;
  }

  Group group_of(size_t rank, const Op& op) const {
    const Group group = snug::group_of(rank, op, ranks_.size());
    if (group[group.ranks - 1] < ranks_.size()) return group;
    throw fault("rank {}: {} is for ranks up to {}, and there are {}", rank, name_text(op),
                group[group.ranks - 1], ranks_.size());
  }

  // What a rank has to do with a lane's group now; nullptr: it is not there.
  const Op* at_lane(size_t rank, const Op& op) const {
    const Op* there = ranks_[rank].ready(ranks_[rank].lane_of(op));
    return there != nullptr && there->def->comm == Comm::collective && there->lane == op.lane
               ? there
               : nullptr;
  }

  bool meet(size_t rank, const Op& op) {
    const Group group = group_of(rank, op);
    for (size_t i = 0; i < group.ranks; ++i)
      if (at_lane(group[i], op) == nullptr) return false;
    const std::string mine = content_text(ranks_[rank].module(), op);
    for (size_t i = 0; i < group.ranks; ++i) {
      const std::string other = content_text(ranks_[group[i]].module(), *at_lane(group[i], op));
      if (other != mine) {
        throw fault("on lane {} rank {} is at {}, rank {} at {}", op.lane, rank, mine, group[i],
                    other);
      }
    }
    for (size_t i = 0; i < group.ranks; ++i) ranks_[group[i]].go_on(ranks_[group[i]].lane_of(op));
    return true;
  }

  // A message goes when both are at it.
  bool hand_over(const Place& from, const Op& send) {
    const Group group = group_of(from.rank, send);
    const auto peer = static_cast<size_t>(send.attrs.i("peer"));
    if (peer >= group.ranks)
      throw fault("rank {}: {} goes to rank {} of {}", from.rank, name_text(send), peer,
                  group.ranks);
    RankPlace& to = ranks_[group[peer]];
    for (size_t lane = 0; lane < to.lanes(); ++lane) {
      const Op* op = to.ready(lane);
      if (op == nullptr || op->def->comm != Comm::recv || op->lane != send.lane ||
          op->attrs.s("axis") != send.attrs.s("axis") ||
          std::cmp_not_equal(op->attrs.i("peer"), group.coordinate_of(from.rank)))
        continue;
      const std::string sent = content_text(ranks_[from.rank].module(), send);
      const std::string taken = content_text(to.module(), *op);
      if (sent != taken)
        throw fault("rank {} sends {} ({}), rank {} takes {} ({})", from.rank, name_text(send),
                    sent, group[peer], name_text(*op), taken);
      ranks_[from.rank].go_on(from.lane);
      to.go_on(lane);
      return true;
    }
    return false;
  }

  void require_all_ended() const {
    constexpr size_t kNamed = 8;
    std::vector<std::string> waiting;
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      for (size_t lane = 0; lane < ranks_[rank].lanes(); ++lane)
        if (const Op* op = ranks_[rank].next(lane); op != nullptr)
          waiting.push_back(fmt::format(
              "rank {}, lane {}: {} waits for {}", rank, op->lane, name_text(*op),
              ranks_[rank].awaited(lane) != nullptr ? name_text(*ranks_[rank].awaited(lane))
                                                    : who_is_missing(rank, *op)));
    if (waiting.empty()) return;
    const size_t more = waiting.size() > kNamed ? waiting.size() - kNamed : 0;
    waiting.resize(waiting.size() - more);
    throw fault("the ranks wait for each other{}; {}{}",
                way_ == Way::list ? ", op by op in list order" : "", fmt::join(waiting, "; "),
                more > 0 ? fmt::format("; and {} lanes more", more) : "");
  }

  std::string who_is_missing(size_t rank, const Op& op) const {
    const Group group = group_of(rank, op);
    if (is_message(op))
      return fmt::format("rank {}", group[static_cast<size_t>(op.attrs.i("peer"))]);
    std::vector<std::string> missing;
    for (size_t i = 0; i < group.ranks; ++i)
      if (at_lane(group[i], op) == nullptr)
        missing.push_back(fmt::format("rank {}, {}", group[i], where(group[i], op)));
    return fmt::format("{}", fmt::join(missing, ", "));
  }

  std::string where(size_t rank, const Op& op) const {
    const Op* next = ranks_[rank].next(ranks_[rank].lane_of(op));
    return next == nullptr ? "whose lane has ended" : "which is before " + name_text(*next);
  }

  template <typename... Args>
  Error fault(fmt::format_string<Args...> format, Args&&... args) const {
    return internal_error("{}: {}", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::string where_;
  Way way_;
  std::vector<RankPlace> ranks_;
};

bool has_messages(const Module& module) {
  return std::ranges::any_of(
      module.programs, [](const Program& p) { return std::ranges::any_of(p.ops, is_message); });
}

bool is_in_step(const Module& module, std::string_view program) {
  return runs_per_step(module, program) > 0;
}

std::vector<const Program*> programs_of_step(const Module& module) {
  std::vector<const Program*> programs;
  for (const Repeat& repeat : module.step)
    for (int64_t i = 0; i < repeat.times; ++i)
      for (const std::string& name : repeat.programs) programs.push_back(&module.program(name));
  return programs;
}

// Those of a step follow each other in an order that all ranks have in common, or are one after
// another from message to message.
void require_same_programs(std::span<const Module* const> ranks, bool stages) {
  const Module& first = *ranks[0];
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const Module& module = *ranks[rank];
    if (!stages && (module.step != first.step || module.programs.size() != first.programs.size()))
      throw internal_error("rank {} steps through other programs than rank 0", rank);
    for (const Program& program : first.programs)
      if (!(stages && is_in_step(first, program.name)) && module.program_index(program.name) < 0)
        throw internal_error("rank {} has no program '{}'", rank, program.name);
  }
}

}  // namespace

void verify_ranks(std::span<const Module* const> ranks) {
  if (ranks.empty()) return;
  // Stages of a pipeline go through a step in different programs.
  const bool stages =
      std::ranges::any_of(ranks, [](const Module* module) { return has_messages(*module); });
  require_same_programs(ranks, stages);
  if (stages && !ranks[0]->step.empty())
    Rendezvous(ranks, "a step", Way::lanes, programs_of_step).run();
  for (const Program& program : ranks[0]->programs) {
    if (stages && is_in_step(*ranks[0], program.name)) continue;
    const auto rendezvous = [&](Way way) {
      Rendezvous(ranks, fmt::format("program '{}'", program.name), way, [&](const Module& module) {
        return std::vector{&module.program(program.name)};
      }).run();
    };
    rendezvous(Way::lanes);
    // Messages would wait for each other: runs that inspect ops one by one have none yet.
    if (!stages) rendezvous(Way::list);
  }
}

std::string collectives_text(const Module& module) {
  std::string text;
  for (const Program& program : module.programs)
    for (const Op& op : program.ops)
      if (op.def->comm != Comm::none)
        text += fmt::format("{}, lane {}: {}\n", program.name, op.lane, content_text(module, op));
  return text;
}

}  // namespace snug
