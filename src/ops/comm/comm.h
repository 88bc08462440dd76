// Collectives and point-to-point messages as ops: facts only, so that several ranks can be planned
// and checked. Each names its mesh axis and a sequence number that is the same on every rank that
// takes part. Blocks are along dim 0. Attr `stride`, where it is not 1: Collective::stride.
//
//   ValueId full = all_gather(b, "w.gather", shard, {.axis = "dp", .ranks = 2, .seq = 7});
#pragma once

#include <string>

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef all_gather_def;  // (shard) -> full: dim 0 times ranks, in rank order
extern const OpDef all_to_all_def;  // (blocks) -> blocks: block r is rank r's, from rank r
// Blocks of tokens, as tensor parallelism has them between matmuls; each is the other's gradient.
extern const OpDef gather_rows_def;     // (rows [n, C]) -> all [batch, length, C], in rank order
extern const OpDef scatter_rows_def;    // (all [B, T, C]) -> rows [B*T/ranks, C]: summed over ranks
extern const OpDef reduce_scatter_def;  // (full) -> shard: summed over ranks, one block each
extern const OpDef all_reduce_def;      // (x) -> y: summed over ranks; y may alias x
extern const OpDef broadcast_def;       // (x) -> y: rank 0's x; y may alias x
extern const OpDef send_def;            // (x) -> ()
extern const OpDef recv_def;            // () -> x; attrs dtype and shape (as text)

struct Collective {
  std::string axis;  // "dp", "tp"
  int64_t ranks = 1;
  int64_t seq = 0;
  int64_t stride = 1;  // of the job's ranks, from one of these to the next
};
ValueId all_gather(Builder& b, std::string_view name, ValueId shard, const Collective& c);
ValueId gather_rows(Builder& b, std::string_view name, ValueId rows, int64_t batch, int64_t length,
                    const Collective& c);
ValueId scatter_rows(Builder& b, std::string_view name, ValueId all, const Collective& c);
ValueId all_to_all(Builder& b, std::string_view name, ValueId blocks, const Collective& c);
ValueId reduce_scatter(Builder& b, std::string_view name, ValueId full, const Collective& c);
ValueId all_reduce(Builder& b, std::string_view name, ValueId x, const Collective& c);
ValueId broadcast(Builder& b, std::string_view name, ValueId x, const Collective& c);

struct Message {
  std::string axis;  // "pp"
  int64_t peer = 0;  // coordinate of the other rank on that axis
  int64_t seq = 0;
  std::string lane = "";  // of the axis: both ends have the same
  int64_t ranks = 0;      // of the axis, and their distance; 0: all there are
  int64_t stride = 1;
};
void send(Builder& b, std::string_view name, ValueId x, const Message& m);
ValueId recv(Builder& b, std::string_view name, Type type, const Message& m);

}  // namespace snug::ops
