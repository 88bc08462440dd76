// Rows of logits that a multiprocessor holds whole, in its registers and its shared memory: while
// it writes the gradient of one row, it reads the next.
#pragma once

#include "ops/loss/loss_rows.h"

namespace snug::ops {

// In 16-byte vectors, and not too long: 155648 logits of 16 bits on Hopper.
bool fit_on_chip(const LossRows& p);
// loss_and_gradient_of_rows for rows that fit, and whose last vectors are filled up.
void loss_and_gradient_on_chip(const LossRows& p, void* stream);

}  // namespace snug::ops
