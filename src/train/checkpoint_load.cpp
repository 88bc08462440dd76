#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
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
  log("{}: {} tensors have no place in the model: {}", weights.path().string(), unused.size(),
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
    transfer(
        t, bytes_of(t.to.value)
               .subspan(static_cast<size_t>(t.to.offset), static_cast<size_t>(t.to.type.bytes())));
  }
}

}  // namespace snug
