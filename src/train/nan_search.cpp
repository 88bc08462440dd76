#include "train/nan_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/visit_dtype.h"
#include "runtime/value_pieces.h"

namespace snug {
namespace {

bool holds_non_finite(const Module& module, ValuePieces& pieces, ValueId id) {
  const Dtype dtype = module[id].type.dtype;
  if (!is_float(dtype)) return false;
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    bool found = false;
    pieces.look(whole(module, id), [&](std::span<const std::byte> next) {
      const std::span values(reinterpret_cast<const T*>(next.data()), next.size() / sizeof(T));
      found = found || std::ranges::any_of(
                           values, [](T v) { return !std::isfinite(static_cast<double>(v)); });
    });
    return found;
  });
}

// The first of `ids` that does; none when all are finite.
ValueId first_non_finite(const Module& module, ValuePieces& pieces,
                         const std::vector<ValueId>& ids) {
  const auto at = std::find_if(ids.begin(), ids.end(), [&](ValueId id) {
    return id.valid() && holds_non_finite(module, pieces, id);
  });
  return at == ids.end() ? ValueId{} : *at;
}

}  // namespace

std::string NonFinite::text() const {
  const std::string where =
      layer == kNoLayer ? "outside the layers" : fmt::format("layer {}", layer);
  std::string text = fmt::format("{}, {} '{}' in {}", where, kind, op, program);
  if (!source.empty())
    text += fmt::format(", whose input '{}' is not finite to begin with", source);
  return text;
}

std::optional<NonFinite> find_non_finite(Executor& executor, const std::function<void()>& replay) {
  const Module& module = executor.module();
  ValuePieces pieces(executor);
  std::optional<NonFinite> found;
  int64_t ops = 0;
  executor.observe = [&](size_t program, size_t at) {
    if (found) return;
    ++ops;
    const Op& op = module.programs[program].ops[at];
    if (op.def->moves_bytes()) return;  // made a step ago, or by another rank
    const ValueId bad = first_non_finite(module, pieces, op.outputs);
    if (!bad.valid()) return;
    // An input whose bytes an output took over no longer shows what it was.
    std::vector<ValueId> inputs;
    for (ValueId id : op.inputs) {
      if (id.valid() && std::ranges::none_of(op.outputs, [&](ValueId out) {
            return module.root(out) == module.root(id);
          }))
        inputs.push_back(id);
    }
    const ValueId source = first_non_finite(module, pieces, inputs);
    found = NonFinite{.at = ops - 1,
                      .layer = op.layer,
                      .program = module.programs[program].name,
                      .op = op.name,
                      .kind = std::string(op.def->kind),
                      .value = module[bad].name,
                      .source = source.valid() ? module[source].name : ""};
  };
  replay();
  executor.observe = nullptr;
  return found;
}

std::string first_site(const std::optional<NonFinite>& mine, Job* job) {
  std::string text = mine ? mine->text() : "no op when the step runs again";
  if (job == nullptr) return text;
  const std::vector<int64_t> all =
      job->gather(mine ? mine->at : std::numeric_limits<int64_t>::max());
  const auto first = static_cast<size_t>(std::ranges::min_element(all) - all.begin());
  return fmt::format("{}, on rank {}", job->exchange(text)[first], first);
}

}  // namespace snug
