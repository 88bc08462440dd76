#include "ops/activation/dropout.h"

#include "kernels/float_kernels.h"
#include "ops/activation/activation_cpu.h"
#include "ops/activation/activation_cuda.h"

namespace snug::ops {
namespace {

enum In : size_t { kX, kSeed, kStep, kSample };

std::vector<Type> infer(const OpView& op) {
  const double p = op.attrs.f("p");
  op.require(p >= 0 && p < 1, "p = {} is not in [0, 1)", p);
  op.require(op.shape(kX).rank() >= 1, "x {} has no axis that counts samples", op.in(kX).text());
  op.require(!op.attrs.has("rows") || (op.attrs.i("rows") > 0 && op.attrs.i("first_row") >= 0 &&
                                       op.shape(kX).rank() == 2),
             "{} does not hold rows of samples", op.in(kX).text());
  for (size_t port = kSeed; port <= kSample; ++port) {
    op.require(op.in(port) == Type{Dtype::i64, {}}, "{} {} is not i64[]", op.def.inputs[port].name,
               op.in(port).text());
  }
  return {op.in(kX)};
}

// The same mask on dy, drawn again.
void grad(GradContext& g) {
  g.set(kX,
        g.emit(dropout_def, {g.dout(0), g.in(kSeed), g.in(kStep), g.in(kSample)}, g.attrs())[0]);
}

// Seven rounds of philox per eight elements.
Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = 10 * op.shape(kX).elements()};
}

void reference(const RefArgs& a) {
  auto scalar = [&](size_t port) { return static_cast<int64_t>(a.in(port).v[0]); };
  const Key key = op_key(scalar(kSeed), scalar(kStep), a.attrs);
  const double p = a.attrs.f("p");
  const uint32_t threshold = drop_threshold(p);
  const Shape& shape = a.in(kX).shape();
  DrawnRows::of(shape, a.attrs)
      .for_samples(shape.elements(), [&](int64_t b, int64_t begin, int64_t first, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<size_t>(first + i);
          const bool kept = keeps(key, scalar(kSample) + b, begin + i, threshold);
          a.out(0).v[at] = kept ? a.in(kX).v[at] * drop_scale(p) : 0;
        }
      });
}

std::vector<Sample> samples() {
  auto sample = [](const char* name, Shape shape, double p) {
    auto scalar = [](double v) { return SampleInput{{Dtype::i64, {}}, Fill::constant(v)}; };
    return Sample{name,
                  {{{Dtype::f32, shape}}, scalar(11), scalar(3), scalar(40)},
                  {{"p", p}, {"key", "h.0.dropout"}}};
  };
  Sample rows = sample("some rows", {7, 24}, 0.3), odd = sample("odd rows", {11, 5}, 0.5);
  for (Sample* s : {&rows, &odd}) {
    s->attrs.set("first_row", 5);
    s->attrs.set("rows", 4);
  }
  return {std::move(rows),
          std::move(odd),
          sample("one in ten", {3, 5, 8}, 0.1),
          sample("odd samples", {4, 7}, 0.5),
          sample("none", {2, 3}, 0),
          sample("several blocks", {2, 9001}, 0.9)};
}

}  // namespace

const OpDef dropout_def{
    .kind = "dropout",
    .inputs = {"x", "seed", "step", "sample"},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .alias = {{.output = 0, .input = kX}},
    .random = true,
    .kernels = float_kernels(dropout_cpu, {.run = SNUG_CUDA_KERNEL(dropout_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId dropout(Builder& b, std::string_view name, ValueId x, double p, const Random& random) {
  return b.emit(dropout_def, name, {x, random.seed, random.step, random.sample},
                {{"p", p}, {"key", b.full_name(name)}})[0];
}

}  // namespace snug::ops
