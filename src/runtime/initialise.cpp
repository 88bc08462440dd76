#include "runtime/initialise.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"

namespace snug {
namespace {

void fill_normal(std::span<float> out, double deviation, Key key) {
  const auto pairs = static_cast<int64_t>((out.size() + 1) / 2);
#pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < pairs; ++p) {
    const auto draw = normal_pair(key, static_cast<uint64_t>(p));
    const auto at = static_cast<size_t>(2 * p);
    out[at] = static_cast<float>(deviation * draw[0]);
    if (at + 1 < out.size()) out[at + 1] = static_cast<float>(deviation * draw[1]);
  }
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
    if (value.type.dtype != Dtype::f32)
      throw internal_error("value '{}' is {}: only f32 can be initialised", value.name,
                           name_of(value.type.dtype));
    if (init.kind == Init::Kind::normal) {
      fill_normal(executor.values<float>(id), init.value,
                  random_key(seed, 0, hash_name(value.name)));
    } else {
      std::ranges::fill(executor.values<float>(id), static_cast<float>(init.value));
    }
  }
}

}  // namespace snug
