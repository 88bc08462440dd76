#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "ir/visit_dtype.h"
#include "train/checkpoint.h"

namespace snug {
namespace {

constexpr size_t kNamesShown = 3;

// A tensor of the file on its way into a value.
struct Transfer {
  SavedTensor to;
  const TensorEntry* from = nullptr;
};

// "a, b, c and 12 more"
std::string first_few(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamesShown);
  const std::string list = join(std::span(names).first(shown), ", ");
  return shown == names.size() ? list : fmt::format("{} and {} more", list, names.size() - shown);
}

// Masks and tables that old versions of `transformers` saved, and second copies of tied weights.
bool is_harmless(std::string_view name) {
  constexpr std::array<std::string_view, 7> endings{
      ".attn.bias",     ".attn.masked_bias", "rotary_emb.inv_freq", "position_ids",
      "lm_head.weight", "decoder.weight",    "decoder.bias"};
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

const TensorEntry* find_any(const CheckpointReader& weights,
                            const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const TensorEntry* found = weights.find(name)) return found;
  }
  return nullptr;
}

void check_fits(const CheckpointReader& weights, const Transfer& t) {
  const auto& [to, from] = t;
  if (from->shape != to.type.shape) {
    throw bad_input("{}: tensor {} is {}, but the model's is {}", weights.path().string(),
                    from->name, from->shape.text(), to.type.shape.text())
        .hint("its config.json describes another model");
  }
  if (*from->dtype != to.type.dtype && !(is_float(*from->dtype) && is_float(to.type.dtype))) {
    throw bad_input("{}: tensor {} is {}, which does not convert to {}", weights.path().string(),
                    from->name, from->file_dtype, name_of(to.type.dtype));
  }
}

std::vector<Transfer> match(const Module& module, const CheckpointReader& weights,
                            const Spellings& spellings) {
  std::vector<Transfer> transfers;
  std::vector<std::string> missing;
  for (SavedTensor& tensor : saved_tensors(module)) {
    const std::vector<std::string> names =
        spellings ? spellings(tensor.name) : std::vector{tensor.name};
    const TensorEntry* found = find_any(weights, names);
    if (found == nullptr) {
      missing.push_back(tensor.name);
    } else {
      transfers.push_back({std::move(tensor), found});
      check_fits(weights, transfers.back());
    }
  }
  if (missing.empty()) return transfers;
  throw bad_input("{} lacks {} of the model's {} tensors: {}", weights.path().string(),
                  missing.size(), missing.size() + transfers.size(), first_few(missing));
}

void log_unused(const CheckpointReader& weights, const std::vector<Transfer>& transfers) {
  std::set<std::string_view> used;
  for (const Transfer& t : transfers) used.insert(t.from->name);
  std::vector<std::string> unused;
  for (std::string& name : weights.names()) {
    if (!used.contains(name) && !is_harmless(name)) unused.push_back(std::move(name));
  }
  if (unused.empty()) return;
  log("{}: {} no place in the model: {}", weights.path().string(),
      unused.size() == 1 ? "1 tensor has"
                         : counted(static_cast<int64_t>(unused.size()), "tensor") + " have",
      first_few(unused));
}

// The file's elements may lie anywhere, so they are read byte-wise.
template <typename From, typename To>
void convert(std::span<const std::byte> from, std::span<std::byte> to) {
  auto* out = reinterpret_cast<To*>(to.data());
  for (size_t i = 0; i < to.size() / sizeof(To); ++i) {
    From element;
    std::memcpy(&element, from.data() + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(static_cast<float>(element));
  }
}

// The first element that is infinite or no number, or none.
template <typename T>
std::optional<size_t> first_not_finite(std::span<const std::byte> bytes) {
  const std::span<const T> values(reinterpret_cast<const T*>(bytes.data()),
                                  bytes.size() / sizeof(T));
  const auto at = std::ranges::find_if(
      values, [](T value) { return !std::isfinite(static_cast<double>(value)); });
  if (at == values.end()) return std::nullopt;
  return static_cast<size_t>(at - values.begin());
}

// A NaN in the file would be a NaN in the first loss, and look like a learning rate that is too
// large.
void require_finite(const CheckpointReader& weights, const Transfer& t,
                    std::span<const std::byte> loaded) {
  if (!is_float(t.to.type.dtype)) return;
  visit_dtype(t.to.type.dtype, [&](auto zero) {
    using To = decltype(zero);
    const std::optional<size_t> at = first_not_finite<To>(loaded);
    if (!at) return;
    const double value = visit_dtype(*t.from->dtype, [&](auto from_zero) {
      std::memcpy(&from_zero, t.from->data.data() + *at * sizeof(from_zero), sizeof(from_zero));
      return static_cast<double>(from_zero);
    });
    if (std::isfinite(value)) {
      throw bad_input("{}: tensor {} holds {} at element {}, which {} cannot hold",
                      weights.path().string(), t.from->name, value, *at, name_of(t.to.type.dtype))
          .hint("use --precision bf16 or fp32");
    }
    throw bad_input("{}: tensor {} holds {} at element {}", weights.path().string(), t.from->name,
                    std::isnan(value) ? "nan" : fmt::format("{}", value), *at)
        .hint("the file was saved from a run that had failed, or is damaged; take an earlier one");
  });
}

void transfer(const Transfer& t, std::span<std::byte> to) {
  if (*t.from->dtype == t.to.type.dtype) {
    std::copy(t.from->data.begin(), t.from->data.end(), to.begin());
    return;
  }
  visit_dtype(*t.from->dtype, [&](auto from_zero) {
    visit_dtype(t.to.type.dtype, [&](auto to_zero) {
      convert<decltype(from_zero), decltype(to_zero)>(t.from->data, to);
    });
  });
}

}  // namespace

void check_weights(const Module& module, const CheckpointReader& weights,
                   const Spellings& spellings) {
  match(module, weights, spellings);
}

void load_model(const Module& module, const WritableBytesOf& bytes_of,
                const CheckpointReader& weights, const Spellings& spellings) {
  const std::vector<Transfer> transfers = match(module, weights, spellings);
  log_unused(weights, transfers);
  for (const Transfer& t : transfers) {
    const std::span<std::byte> to =
        bytes_of(t.to.value)
            .subspan(static_cast<size_t>(t.to.offset), static_cast<size_t>(t.to.type.bytes()));
    transfer(t, to);
    require_finite(weights, t, to);
  }
}

}  // namespace snug
