#include "runtime/initialise.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "ops/float_kernels.h"

namespace snug {
namespace {

template <typename T>
void fill_normal(std::span<T> out, double deviation, Key key) {
  const auto pairs = static_cast<int64_t>((out.size() + 1) / 2);
#pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < pairs; ++p) {
    const auto draw = normal_pair(key, static_cast<uint64_t>(p));
    const auto at = static_cast<size_t>(2 * p);
    out[at] = T(static_cast<float>(deviation * draw[0]));
    if (at + 1 < out.size()) out[at + 1] = T(static_cast<float>(deviation * draw[1]));
  }
}

// 16-bit values are the same draws, rounded.
void fill_floats(const Executor& executor, ValueId id, const Init& init, uint64_t seed) {
  const Value& value = executor.module()[id];
  ops::visit_float(value.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (init.kind == Init::Kind::normal) {
      fill_normal(executor.values<T>(id), init.value, random_key(seed, 0, hash_name(value.name)));
    } else {
      std::ranges::fill(executor.values<T>(id), T(static_cast<float>(init.value)));
    }
  });
}

}  // namespace

void initialise(Executor& executor, uint64_t seed) {
  const Module& module = executor.module();
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    const ValueId id{static_cast<int32_t>(i)};
    if (!value.shared() || !value.owns_bytes()) continue;
    // Step-scoped values start as zeros too, so that nothing ever reads what nobody wrote.
    const Init init = value.param ? value.param->init : Init{};
    if (init.kind == Init::Kind::zeros) {
      std::memset(executor.bytes(id).data(), 0, static_cast<size_t>(value.storage_bytes()));
      continue;
    }
    fill_floats(executor, id, init, seed);
  }
}

void derive(Executor& executor) {
  if (executor.module().program_index("load") >= 0) executor.run("load");
}

}  // namespace snug
