#include <algorithm>
#include <compare>
#include <map>

#include "ir/verifier.h"

namespace snug {
namespace {

int64_t bytes_of(const Module& module, const std::vector<ValueId>& ids) {
  int64_t bytes = 0;
  for (ValueId id : ids) bytes += id.valid() ? module[id].type.bytes() : 0;
  return bytes;
}

// What must agree for a collective: the n-th on an axis in a program is the same on every rank.
struct Collective {
  std::string_view program, axis;
  std::string_view kind;
  int64_t seq, sent, received;
  std::string_view op;  // only for the error

  bool agrees(const Collective& o) const {
    return program == o.program && axis == o.axis && kind == o.kind && seq == o.seq &&
           sent == o.sent && received == o.received;
  }
};

struct Message {
  std::string_view program, axis;
  int64_t from, to, seq;
  friend auto operator<=>(const Message&, const Message&) = default;
};
struct Content {
  int64_t bytes;
  std::string_view op;
};

class Ranks {
 public:
  explicit Ranks(std::span<const Module* const> ranks) : collectives_(ranks.size()) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) read(*ranks[rank], rank);
  }

  void check() const {
    for (size_t rank = 1; rank < collectives_.size(); ++rank) check_collectives(rank);
    check_messages(sent_, received_, "sends", "no rank receives");
    check_messages(received_, sent_, "waits for", "no rank sends");
  }

 private:
  void read(const Module& module, size_t rank) {
    for (const Program& program : module.programs) {
      for (const Op& op : program.ops) {
        if (op.def->comm == Comm::none) continue;
        const std::string_view axis = op.attrs.s("axis");
        const int64_t seq = op.attrs.i("seq");
        const int64_t in = bytes_of(module, op.inputs);
        const int64_t out = bytes_of(module, op.outputs);
        const auto me = static_cast<int64_t>(rank);
        switch (op.def->comm) {
          case Comm::none:
            break;
          case Comm::collective:
            collectives_[rank].push_back({program.name, axis, op.def->kind, seq, in, out, op.name});
            break;
          case Comm::send:
            add(sent_, {program.name, axis, me, op.attrs.i("peer"), seq}, {in, op.name});
            break;
          case Comm::recv:
            add(received_, {program.name, axis, op.attrs.i("peer"), me, seq}, {out, op.name});
            break;
        }
      }
    }
    // Different axes may be interleaved in any way; programs may be in any order.
    std::ranges::stable_sort(collectives_[rank], {},
                             [](const Collective& c) { return std::pair(c.program, c.axis); });
  }

  using Messages = std::map<Message, Content>;
  static void add(Messages& messages, const Message& message, const Content& content) {
    if (!messages.emplace(message, content).second) {
      throw internal_error(
          "program '{}', op '{}': message {} from rank {} to rank {} on axis '{}' is there twice",
          message.program, content.op, message.seq, message.from, message.to, message.axis);
    }
  }

  void check_collectives(size_t rank) const {
    const auto& first = collectives_[0];
    const auto& mine = collectives_[rank];
    for (size_t i = 0; i < std::max(first.size(), mine.size()); ++i) {
      if (i < first.size() && i < mine.size() && first[i].agrees(mine[i])) continue;
      throw internal_error("collective {} of rank 0 is {}, of rank {} {}", i, text(first, i), rank,
                           text(mine, i));
    }
  }
  static std::string text(const std::vector<Collective>& list, size_t i) {
    if (i >= list.size()) return "missing";
    const Collective& c = list[i];
    return fmt::format("{} '{}' (program '{}', axis '{}', number {}, {} bytes in, {} out)", c.kind,
                       c.op, c.program, c.axis, c.seq, c.sent, c.received);
  }

  static void check_messages(const Messages& mine, const Messages& theirs, std::string_view does,
                             std::string_view nobody) {
    for (const auto& [message, content] : mine) {
      const auto found = theirs.find(message);
      if (found != theirs.end() && found->second.bytes == content.bytes) continue;
      const std::string other =
          found == theirs.end() ? fmt::format("{} it", nobody)
                                : fmt::format("'{}' has {}", found->second.op, found->second.bytes);
      throw internal_error(
          "program '{}', op '{}' {} message {} of {} bytes from rank {} to rank {} on axis '{}': "
          "{}",
          message.program, content.op, does, message.seq, content.bytes, message.from, message.to,
          message.axis, other);
    }
  }

  std::vector<std::vector<Collective>> collectives_;  // by rank
  Messages sent_, received_;
};

}  // namespace

void verify_ranks(std::span<const Module* const> ranks) { Ranks(ranks).check(); }

}  // namespace snug
