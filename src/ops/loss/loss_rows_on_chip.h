// Rows of logits that a multiprocessor holds whole, in its registers and its shared memory: while
// it writes the gradient of one row, it reads the next.
#pragma once

#include "ops/loss/loss_rows.h"

namespace snug::ops {

// In 16-byte vectors, and not too long for the device's shared memory: 155,648 logits of 16 bits in
// 227 KiB, 90,112 in 99. Longer rows are summed in another order, so that last bits may differ.
bool fit_on_chip(const LossRows& p);
// loss_and_gradient_of_rows for rows that fit, and whose last vectors are filled up.
void loss_and_gradient_on_chip(const LossRows& p, void* stream);

}  // namespace snug::ops
