#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <type_traits>

#include "base/error.h"
#include "base/notes.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cost/step_cost.h"
#include "ir/tensor_cut.h"
#include "ir/visit_dtype.h"
#include "ops/quantize/store.h"

namespace snug {
namespace {

static_assert(host_context_bytes(Backend::cpu) == ValuePieces::kPieceBytes + kReadBlockBytes,
              "what a plan counts is what loading holds");

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
  constexpr std::array<std::string_view, 9> endings{
      ".attn.bias",          ".attn.masked_bias", ".attention.bias", ".attention.masked_bias",
      "rotary_emb.inv_freq", "position_ids",      "lm_head.weight",  "decoder.weight",
      "decoder.bias"};
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

std::vector<std::string> unused_in(const CheckpointReader& weights,
                                   const std::vector<Transfer>& transfers) {
  std::set<std::string_view> used;
  for (const Transfer& t : transfers) used.insert(t.from->name);
  std::vector<std::string> unused;
  for (std::string& name : weights.names()) {
    if (!used.contains(name) && !is_harmless(name)) unused.push_back(std::move(name));
  }
  return unused;
}

void log_unused(const CheckpointReader& weights, const std::vector<Transfer>& transfers) {
  const std::vector<std::string> unused = unused_in(weights, transfers);
  if (unused.empty()) return;
  note("{}: {} no place in the model: {}", weights.path().string(),
       unused.size() == 1 ? "1 tensor has"
                          : counted(static_cast<int64_t>(unused.size()), "tensor") + " have",
       first_few(unused));
}

// Else an adapter's tensors for layers that the model has not would be lost without a message.
void require_all_used(const CheckpointReader& weights, const std::vector<Transfer>& transfers) {
  const std::vector<std::string> unused = unused_in(weights, transfers);
  if (unused.empty()) return;
  throw bad_input("{}: {} no place in this model: {}", weights.path().string(),
                  unused.size() == 1
                      ? "1 tensor has"
                      : counted(static_cast<int64_t>(unused.size()), "tensor") + " have",
                  first_few(unused))
      .hint("the adapter is of another base model");
}

std::vector<Transfer> match(const Module& module, const CheckpointReader& weights,
                            const Spellings& spellings, Part part, HasMore more) {
  std::vector<Transfer> transfers;
  std::vector<std::string> missing;
  size_t tensors = 0;
  for (SavedTensor& tensor : saved_tensors(module, part)) {
    const std::vector<std::string> names =
        spellings ? spellings(tensor.name) : std::vector{tensor.name};
    const TensorEntry* found = find_any(weights, names);
    if (tensor.first == 0) ++tensors;
    if (found == nullptr) {
      if (tensor.first == 0) missing.push_back(tensor.name);
    } else {
      transfers.push_back({std::move(tensor), found});
      check_fits(weights, transfers.back());
    }
  }
  if (!missing.empty()) {
    throw bad_input("{} lacks {} of the {}'s {} tensors: {}", weights.path().string(),
                    missing.size(), part == Part::adapter ? "adapter" : "model", tensors,
                    first_few(missing));
  }
  if (part == Part::adapter && more == HasMore::no) require_all_used(weights, transfers);
  return transfers;
}

template <typename T>
std::span<const T> elements(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

template <typename T>
bool is_finite(T value) {
  if constexpr (std::is_same_v<T, double>) return std::isfinite(value);
  return std::isfinite(static_cast<float>(value));
}

template <typename From, typename To>
void convert(std::span<const std::byte> from, std::span<std::byte> to) {
  std::ranges::transform(elements<From>(from), reinterpret_cast<To*>(to.data()),
                         [](From x) { return static_cast<To>(static_cast<float>(x)); });
}

// The first element that is infinite or no number, or none.
template <typename T>
std::optional<int64_t> first_not_finite(std::span<const std::byte> bytes) {
  const std::span<const T> values = elements<T>(bytes);
  int bad = 0;  // a sum, so that this vectorises: nearly always there is none
  for (const T value : values) bad += is_finite(value) ? 0 : 1;
  if (bad == 0) return std::nullopt;
  const auto at = std::ranges::find_if_not(values, is_finite<T>);
  return at - values.begin();
}

// Reads one tensor's elements in their order, as the model's type.
class TensorReader {
 public:
  // `block`: kReadBlockBytes, to read into what is converted.
  // From byte `skipped` of what it becomes on.
  TensorReader(const CheckpointReader& weights, const Transfer& t, int64_t skipped,
               std::span<std::byte> block)
      : weights_(weights),
        from_(*t.from),
        to_(t.to.type.dtype),
        stored_(t.to.stored),
        block_(block),
        at_(t.to.first + (stored_ == Stored::plain ? skipped / size_of(to_)
                                                   : ops::stored_elements(stored_, skipped))) {}

  // Its next elements.
  void read(std::span<std::byte> out) {
    if (stored_ == Stored::plain) return read_plain(out);
    ops::store_next(stored_, out,
                    [&](std::span<float> next) { read_plain(std::as_writable_bytes(next)); });
  }

 private:
  void read_plain(std::span<std::byte> out) {
    const auto from_size = static_cast<size_t>(size_of(*from_.dtype));
    const auto to_size = static_cast<size_t>(size_of(to_));
    while (!out.empty()) {
      const size_t n = std::min(out.size() / to_size, kReadBlockBytes / from_size);
      read_block(n * from_size, out.first(n * to_size));
      at_ += static_cast<int64_t>(n);
      out = out.subspan(n * to_size);
    }
  }

  void read_block(size_t bytes, std::span<std::byte> to) {
    const std::span<std::byte> from = *from_.dtype == to_ ? to : block_.first(bytes);
    from_.read(at_ * size_of(*from_.dtype), from);
    if (*from_.dtype != to_) {
      visit_dtype(*from_.dtype, [&](auto from_zero) {
        visit_dtype(
            to_, [&](auto to_zero) { convert<decltype(from_zero), decltype(to_zero)>(from, to); });
      });
    }
    require_finite(from, to);
  }

  // A NaN in the file would be a NaN in the first loss, and look like a learning rate that is too
  // large.
  void require_finite(std::span<const std::byte> from, std::span<const std::byte> to) const {
    if (!is_float(to_)) return;
    const std::optional<int64_t> bad =
        visit_dtype(to_, [&](auto zero) { return first_not_finite<decltype(zero)>(to); });
    if (!bad) return;
    const double value = visit_dtype(*from_.dtype, [&](auto zero) {
      return static_cast<double>(elements<decltype(zero)>(from)[static_cast<size_t>(*bad)]);
    });
    if (std::isfinite(value)) {
      throw bad_input("{}: tensor {} holds {} at element {}, which {} cannot hold",
                      weights_.path().string(), from_.name, value, at_ + *bad, name_of(to_))
          .hint("use --precision bf16 or fp32");
    }
    throw bad_input("{}: tensor {} holds {} at element {}", weights_.path().string(), from_.name,
                    std::isnan(value) ? "nan" : fmt::format("{}", value), at_ + *bad)
        .hint("the file was saved from a run that had failed, or is damaged; take an earlier one");
  }

  const CheckpointReader& weights_;
  const TensorEntry& from_;
  Dtype to_;
  Stored stored_;
  std::span<std::byte> block_;
  int64_t at_;  // the next element
};

// Loads this rank's part of a parameter that ranks cut: from the tensors that it is made of, each
// of which is a dense part of the whole.
void load_boxes(const Module& module, ValueId id, const MakePieces& into,
                const CheckpointReader& weights, const std::vector<const Transfer*>& tensors,
                std::span<std::byte> block) {
  const Value& value = module[id];
  const TensorCut& cut = tensor_cut_of(module, value);
  const int64_t size = size_of(value.type.dtype);
  int64_t at = value.shard_first;  // the next element
  into(without_padding(module, id), [&](std::span<std::byte> next) {
    std::ranges::fill(next, std::byte{0});  // after the last word
    const int64_t end = at + std::ssize(next) / size;
    for (const Transfer* t : tensors) {
      const int64_t from = t->to.offset / size, to = from + t->to.bytes / size;
      for_runs_in(cut, at, end, from, to, [&](const WholeRun& run) {
        TensorReader reader(weights, *t, (run.whole_first - from) * size, block);
        reader.read(next.subspan(static_cast<size_t>((run.first - at) * size),
                                 static_cast<size_t>(run.elements * size)));
      });
    }
    at = end;
  });
}

}  // namespace

void check_weights(const Module& module, const CheckpointReader& weights,
                   const Spellings& spellings, Part part, HasMore more) {
  match(module, weights, spellings, part, more);
}

void load_model(const Module& module, const MakePieces& into, const CheckpointReader& weights,
                const Spellings& spellings, Part part, HasMore more) {
  const std::vector<Transfer> transfers = match(module, weights, spellings, part, more);
  if (more == HasMore::no) log_unused(weights, transfers);
  std::vector<std::byte> block(kReadBlockBytes);
  std::map<ValueId, std::vector<const Transfer*>> cut;
  for (const Transfer& t : transfers) {
    if (tensor_cut_of(module, module[t.to.value]).on()) {
      cut[t.to.value].push_back(&t);
      continue;
    }
    const ShardPart mine = in_shard(module[t.to.value], t.to.part());
    if (mine.bytes == 0) continue;
    TensorReader tensor(weights, t, mine.skipped, block);
    into({t.to.value, mine.offset, mine.bytes},
         [&](std::span<std::byte> next) { tensor.read(next); });
  }
  for (const auto& [value, tensors] : cut) load_boxes(module, value, into, weights, tensors, block);
}

}  // namespace snug
