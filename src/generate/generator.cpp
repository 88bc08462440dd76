#include "generate/generator.h"

#include <algorithm>

#include "base/error.h"
#include "compile/compile.h"
#include "passes/shared_names.h"

namespace snug {
namespace {

// Of the caches [1,N,K,D], which are all alike.
int64_t cached_positions(const Module& module) {
  for (const Value& value : module.values) {
    const bool kept = value.category == Category::buffers && value.scope == Scope::persistent;
    if (kept && value.type.shape.rank() == 4) return value.type.shape[1];
  }
  throw internal_error("'{}' has no caches", module.name);
}

}  // namespace

Generator::Generator(Executor& executor)
    : executor_(executor),
      decode_(input_of(generation::kDecode)),
      logits_id_(executor.shared(shared_names::kLogits)),
      positions_(cached_positions(executor.module())) {
  if (executor.module().program_index(generation::kPrefill) >= 0)
    prefill_ = input_of(generation::kPrefill);
  logits_.resize(static_cast<size_t>(executor.module()[logits_id_].type.shape.elements()));
}

Generator::Input Generator::input_of(const char* program) const {
  const ValueId tokens = executor_.shared(fmt::format("{}.tokens", program));
  return {.tokens = tokens,
          .starts = executor_.shared(fmt::format("{}.starts", program)),
          .count = executor_.module()[tokens].type.shape.elements()};
}

void Generator::run(const char* program, const Input& input, std::span<const int32_t> tokens) {
  starts_.assign(tokens.size(), static_cast<int32_t>(-position_));
  executor_.write(input.tokens, std::as_bytes(tokens));
  executor_.write(input.starts, std::as_bytes(std::span(starts_)));
  executor_.run(program);
  position_ += static_cast<int64_t>(tokens.size());
}

std::span<const float> Generator::take(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (count < 1 || position_ + count > positions_) {
    throw internal_error("{} tokens after {} do not fit {} positions", count, position_,
                         positions_);
  }
  const int64_t begin = position_, last = count - 1;
  const auto part = [&](int64_t from, int64_t n) {
    return tokens.subspan(static_cast<size_t>(from), static_cast<size_t>(n));
  };
  // The last chunk ends with the last token but one. What it has in common with the chunk before is
  // computed and written again, to the same keys and values.
  const int64_t chunk = prefill_.count;
  while (chunk > 0 && last >= chunk && position_ < begin + last) {
    position_ = std::min(position_, begin + last - chunk);
    run(generation::kPrefill, prefill_, part(position_ - begin, chunk));
  }
  while (position_ < begin + count) run(generation::kDecode, decode_, part(position_ - begin, 1));
  executor_.read(logits_id_, std::as_writable_bytes(std::span(logits_)));
  return logits_;
}

}  // namespace snug
