#include "ops/loss/cross_entropy_cuda.h"

#include "ops/loss/loss_rows.h"

namespace snug::ops {
namespace {

LossRows rows_of(const KernelArgs& a) {
  return {.logits = a.in(0).data,
          .rows = a.in(0).shape().rows(),
          .V = a.in(0).shape().back(),
          .stride = a.in(0).shape().back(),
          .dtype = a.in(0).type->dtype};
}

}  // namespace

void cross_entropy_cuda(const KernelArgs& a) {
  LossRows p = rows_of(a);
  p.targets = a.in<int32_t>(1);
  p.losses = reinterpret_cast<double*>(a.workspace.data());
  p.lse = a.out<float>(1);
  loss_of_rows(p, a.stream);
  sum_losses(p.losses, p.rows, a.in<float>(2), a.out<float>(0), a.stream);
}

void cross_entropy_grad_cuda(const KernelArgs& a) {
  LossRows p = rows_of(a);
  p.lse = a.in(1).as<float>();
  p.targets = a.in<int32_t>(2);
  p.dloss = a.in<float>(3);
  gradient_of_rows(p, a.out(0).data, a.stream);
}

}  // namespace snug::ops
