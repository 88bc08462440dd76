#include "runtime/initialise.h"

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "ir/tensor_cut.h"
#include "kernels/float_kernels.h"
#include "ops/quantize/store.h"
#include "runtime/value_pieces.h"

namespace snug {
namespace {

template <typename T>
std::span<T> elements(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Elements `first` and on; two of them come from one draw.
template <typename T>
void fill_normal(std::span<T> out, size_t first, double deviation, Key key) {
  if (first % 2 != 0 && !out.empty()) {
    out[0] = T(static_cast<float>(deviation * normal_pair(key, first / 2)[1]));
    return fill_normal(out.subspan(1), first + 1, deviation, key);
  }
  const auto pairs = static_cast<int64_t>((out.size() + 1) / 2);
#pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < pairs; ++p) {
    const auto draw = normal_pair(key, first / 2 + static_cast<uint64_t>(p));
    const auto at = static_cast<size_t>(2 * p);
    out[at] = T(static_cast<float>(deviation * draw[0]));
    if (at + 1 < out.size()) out[at + 1] = T(static_cast<float>(deviation * draw[1]));
  }
}

// 16-bit values are the same draws, rounded.
void fill_floats(const Module& module, ValuePieces& pieces, ValueId id, uint64_t seed) {
  const Value& value = module[id];
  const Init& init = value.param->init;
  const Key key = random_key(seed, 0, hash_name(value.name));
  ops::visit_float(value.type.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto first = static_cast<size_t>(value.shard_first);  // element of the next piece
    pieces.make(without_padding(module, id), [&](std::span<std::byte> next) {
      const std::span<T> out = elements<T>(next);
      const auto begin = static_cast<int64_t>(first);
      std::ranges::fill(out, T(0.0F));
      for_runs(value.param->cut, begin, begin + std::ssize(out), [&](const WholeRun& run) {
        const auto at =
            out.subspan(static_cast<size_t>(run.first - begin), static_cast<size_t>(run.elements));
        if (init.kind == Init::Kind::normal) {
          fill_normal(at, static_cast<size_t>(run.whole_first), init.value, key);
        } else {
          std::ranges::fill(at, T(static_cast<float>(init.value)));
        }
      });
      first += out.size();
    });
  });
}

// The same draws, stored in fewer bits.
void fill_stored(const Module& module, ValuePieces& pieces, ValueId id, uint64_t seed) {
  const Value& value = module[id];
  const Init& init = value.param->init;
  const Stored stored = value.param->stored;
  const std::string whole = value.name.substr(0, value.name.rfind('.'));
  const Key key = random_key(seed, 0, hash_name(whole));
  auto first = static_cast<size_t>(
      ops::stored_elements(stored, value.shard_first * size_of(value.type.dtype)));
  pieces.make(without_padding(module, id), [&](std::span<std::byte> out) {
    ops::store_next(stored, out, [&](std::span<float> next) {
      if (init.kind == Init::Kind::normal) {
        fill_normal(next, first, init.value, key);
      } else {
        std::ranges::fill(next, static_cast<float>(init.value));
      }
      first += next.size();
    });
  });
}

}  // namespace

void initialise(Executor& executor, uint64_t seed, const std::set<ValueId>& loaded) {
  const Module& module = executor.module();
  ValuePieces pieces(executor);
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    const ValueId id{static_cast<int32_t>(i)};
    if (!value.shared() || !value.owns_bytes() || loaded.contains(id)) continue;
    // Step-scoped values start as zeros too, so that no op ever reads unwritten bytes.
    const bool zeros = !value.param || value.param->init.kind == Init::Kind::zeros;
    if (zeros || without_padding(module, id).bytes < value.storage_bytes()) executor.zero(id);
    if (zeros) continue;
    if (value.param->stored != Stored::plain) {
      fill_stored(module, pieces, id, seed);
    } else {
      fill_floats(module, pieces, id, seed);
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
