#include "techniques/techniques.h"

#include <iterator>

#include "base/error.h"
#include "techniques/rows.h"

namespace snug {

std::span<const Technique> techniques() {
  static const std::vector<Technique> table = [] {
    std::vector<Technique> all;
    for (const auto rows :
         {attention_rows, loss_rows, recompute_rows, precision_rows, compress_rows, base_rows,
          offload_rows, zero_rows, optimizer_rows, host_update_rows, update_in_backward_rows}) {
      std::vector<Technique> some = rows();
      std::move(some.begin(), some.end(), std::back_inserter(all));
    }
    return all;
  }();
  return table;
}

Effect effect_in(const Technique& technique, const Settings& run) {
  return technique.effect_with != nullptr ? technique.effect_with(run) : technique.effect;
}

const Technique& technique(std::string_view name) {
  for (const Technique& t : techniques())
    if (t.name == name) return t;
  throw internal_error("no technique is called '{}'", name);
}

const Technique& smallest_of(std::string_view dimension) {
  for (const Technique& t : techniques())
    if (t.dimension == dimension && t.smallest) return t;
  throw internal_error("no technique is the smallest of '{}'", dimension);
}

std::span<const DimensionRow> dimensions() {
  static const std::vector<DimensionRow> rows{
      attention_dimension(), loss_dimension(), precision_dimension(), optimizer_dimension(),
      compress_dimension(),  base_dimension(), zero_dimension(),      offload_dimension()};
  return rows;
}

}  // namespace snug
