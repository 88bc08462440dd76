// Whole values on rank 0, from wherever the ranks have their shards: what a model is saved from,
// piece by piece.
//
//   save_model(module, over_ranks(module, pieces, group), options);   // rank 0
//   send_to_first(module, pieces, group, part);                       // the others
#pragma once

#include "comm/communicator.h"
#include "train/checkpoint.h"

namespace snug {

// Bytes of a part between two ranks, in pieces of the same size on both ends.
void receive_pieces(Communicator& group, int rank, int64_t bytes, const LookAtPiece& visit);
void send_pieces(Communicator& group, ValuePieces& mine, const ValuePart& part);

// `group` moves bytes of the host; the other ranks that share the first copy of the state call
// send_to_first meanwhile.
PiecesOf over_ranks(const Module& module, ValuePieces& mine, Communicator& group);
// Of the model's or the adapter's tensors, in their order.
void send_to_first(const Module& module, ValuePieces& mine, Communicator& group, Part part);

}  // namespace snug
