#include "models/scaled.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/number.h"
#include "base/units.h"

namespace snug {
namespace {

constexpr int64_t kEven = 128;        // widths that kernels like
constexpr int64_t kWidest = 1 << 20;  // as any configuration's: beyond it nothing is worked out

// a * b / c to the nearest whole number.
int64_t in_proportion(int64_t a, int64_t b, int64_t c) { return (a * b + c / 2) / c; }

// The number of key and value heads nearest to the family's share that H heads divide by.
int64_t kv_heads(int64_t H, int64_t base_H, int64_t base_K) {
  int64_t best = 1;
  for (int64_t k = 1; k <= H; ++k) {
    const auto off = [&](int64_t n) { return std::abs(n * base_H - H * base_K); };
    if (H % k == 0 && off(k) < off(best)) best = k;
  }
  return best;
}

// The least width that is a whole number of heads.
int64_t head_step(int64_t C, int64_t H) { return H == 0 ? 1 : C / std::gcd(C, H); }

}  // namespace

std::optional<ScaledName> parse_scaled(std::string_view name) {
  const size_t colon = name.rfind(':');
  if (colon == name.npos || colon == 0) return std::nullopt;
  const std::string_view size = name.substr(colon + 1);
  const size_t x = size.find('x');
  ScaledName to{.base = std::string(name.substr(0, colon))};
  if (x == size.npos || !read_number(size.substr(0, x), to.C) ||
      !read_number(size.substr(x + 1), to.L) || to.C < 1 || to.L < 1)
    return std::nullopt;
  return to;
}

std::string scaled_name(std::string_view model, int64_t C, int64_t L) {
  const auto named = parse_scaled(model);
  return fmt::format("{}:{}x{}", named ? named->base : model, C, L);
}

HfConfig scaled(const HfConfig& base, const ScaledName& to, std::string_view name) {
  if (to.C > kWidest) {
    throw usage_error("'{}': a width of {} is more than the {} that Snug takes", name, to.C,
                      format_exact(kWidest));
  }
  const int64_t step = head_step(base.hidden_size, base.num_attention_heads);
  if (to.C % step != 0) {
    throw usage_error("'{}': a width of {} is not a whole number of {}'s heads", name, to.C,
                      to.base)
        .hint(fmt::format("widths are multiples of {}", step));
  }
  HfConfig c = base;
  c.hidden_size = to.C;
  c.num_hidden_layers = to.L;
  c.num_attention_heads = base.num_attention_heads * to.C / base.hidden_size;
  c.num_key_value_heads =
      kv_heads(c.num_attention_heads, base.num_attention_heads, base.num_key_value_heads);
  const int64_t even = std::gcd(base.intermediate_size, kEven);
  c.intermediate_size = even * std::max<int64_t>(1, in_proportion(base.intermediate_size, to.C,
                                                                  base.hidden_size * even));
  return parse_hf_config(to_json(c), name);  // which holds it to every limit
}

int64_t width_step(const ModelConfig& c) {
  return std::lcm(head_step(c.C, c.H), std::gcd(c.C, kEven));
}

int64_t layers_at(const ModelConfig& c, int64_t C) {
  return std::max<int64_t>(1, in_proportion(c.L, C, c.C));
}

}  // namespace snug
