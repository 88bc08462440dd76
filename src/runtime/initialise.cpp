#include "runtime/initialise.h"

#include <algorithm>

#include "base/rng.h"
#include "kernels/float_kernels.h"
#include "runtime/host_values.h"

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
void fill_floats(Executor& executor, HostValues& host, ValueId id, uint64_t seed) {
  const Value& value = executor.module()[id];
  const Init& init = value.param->init;
  ops::visit_float(value.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (init.kind == Init::Kind::normal) {
      fill_normal(host.make<T>(id), init.value, random_key(seed, 0, hash_name(value.name)));
    } else {
      std::ranges::fill(host.make<T>(id), T(static_cast<float>(init.value)));
    }
  });
}

}  // namespace

void initialise(Executor& executor, uint64_t seed) {
  const Module& module = executor.module();
  HostValues host(executor);
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    const ValueId id{static_cast<int32_t>(i)};
    if (!value.shared() || !value.owns_bytes()) continue;
    // Step-scoped values start as zeros too, so that nothing ever reads what nobody wrote.
    if (!value.param || value.param->init.kind == Init::Kind::zeros) {
      executor.zero(id);
    } else {
      fill_floats(executor, host, id, seed);
    }
  }
}

namespace {

void run_if_there(Executor& executor, ProgramRole role) {
  if (executor.module().program_index(role) >= 0) executor.run(role);
}

}  // namespace

void derive(Executor& executor) { run_if_there(executor, ProgramRole::load); }

void flush_updates(Executor& executor) { run_if_there(executor, ProgramRole::flush); }

}  // namespace snug
