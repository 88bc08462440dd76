#include "ops/quantize/format.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace snug::ops {

std::span<const Format* const> formats() {
  static constexpr std::array all{&kInt8, &kNf4, &kDynamic8};
  return all;
}

const Format& format_of(Stored stored) {
  const auto holds = [&](const Format* f) {
    return f->stored_payload == stored || f->stored_scales == stored;
  };
  const auto found = std::ranges::find_if(formats(), holds);
  if (stored == Stored::plain || found == formats().end())
    throw internal_error("'{}' is in no format of fewer bits", name_of(stored));
  return **found;
}

bool is_scales(Stored stored) {
  return stored != Stored::plain && format_of(stored).stored_scales == stored;
}

int64_t stored_bytes(Stored stored, int64_t elements) {
  const Format& format = format_of(stored);
  return is_scales(stored) ? ceil_div(elements, format.block) * size_of(format.scale)
                           : ceil_div(elements, format.packed) * size_of(format.payload);
}

int64_t stored_elements(Stored stored, int64_t bytes) {
  const Format& format = format_of(stored);
  return is_scales(stored) ? bytes / size_of(format.scale) * format.block
                           : bytes / size_of(format.payload) * format.packed;
}

int64_t stored_parameters(Stored stored, int64_t elements) {
  if (stored == Stored::plain) return elements;
  return is_scales(stored) ? 0 : format_of(stored).packed * elements;
}

}  // namespace snug::ops
