// CPU kernels of the embedding family.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void embedding_cpu(const KernelArgs& a);
void embedding_grad_cpu(const KernelArgs& a);
void embedding_grad_positions_cpu(const KernelArgs& a);
void embedding_grad_types_cpu(const KernelArgs& a);

// Scratch of embedding_grad: the places of each token of the table. embedding_grad_positions has it
// too where positions restart, after the positions themselves.
int64_t embedding_grad_workspace(int64_t table_rows, int64_t tokens);

}  // namespace snug::ops
