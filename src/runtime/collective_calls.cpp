#include "runtime/collective_calls.h"

#include "base/error.h"

namespace snug {

Communicator* group_for(const Op& op, const GroupOf& group_of, const Device& device) {
  if (op.def->comm == Comm::none) return nullptr;
  Communicator& group = group_of(op.lane, op.attrs.s("axis"));
  if (group.enqueues() != (device.stream() != nullptr))
    throw internal_error("{} does not move what is on {}", group.engine(), device.name());
  const int64_t ranks = op.def->comm == Comm::collective ? op.attrs.i("ranks") : group.ranks();
  if (ranks != group.ranks())
    throw internal_error("{} '{}' is for {} ranks, and its group has {}", op.def->kind, op.name,
                         ranks, group.ranks());
  return &group;
}

void communicate(const Op& op, Communicator& group, const KernelArgs& args, void* stream) {
  const auto bytes_of = [](const Tensor& t) {
    return std::span(t.as<std::byte>(), static_cast<size_t>(t.type->bytes()));
  };
  if (op.def->comm == Comm::send)
    return group.send(bytes_of(args.in(0)), static_cast<int>(op.attrs.i("peer")), stream);
  if (op.def->comm == Comm::recv)
    return group.receive(bytes_of(args.out(0)), static_cast<int>(op.attrs.i("peer")), stream);
  const std::span<std::byte> from = bytes_of(args.in(0)), to = bytes_of(args.out(0));
  const Type& type = *args.out(0).type;
  switch (op.def->collective) {
    case CollectiveKind::gather:
      return group.all_gather(from, to.data(), stream);
    case CollectiveKind::exchange:
      return group.all_to_all(from.data(), to.data(),
                              static_cast<int64_t>(from.size()) / group.ranks(), stream);
    case CollectiveKind::reduce_scatter:
      return group.reduce_scatter(from.data(), to.data(), type.dtype, type.shape.elements(),
                                  stream);
    case CollectiveKind::all_reduce:
      return group.all_reduce(from.data(), to.data(), type.dtype, type.shape.elements(), stream);
    case CollectiveKind::broadcast:
      if (from.data() != to.data())
        throw internal_error("{} '{}' is not in place", op.def->kind, op.name);
      return group.broadcast(to, /*root=*/0, stream);
    case CollectiveKind::none:
      break;
  }
  throw internal_error("{} '{}' is no collective that a group knows", op.def->kind, op.name);
}

}  // namespace snug
