#include "checkpoint/merge.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/output_directory.h"
#include "checkpoint/transfer_progress.h"
#include "formats/peft_config.h"
#include "formats/peft_names.h"
#include "ir/visit_dtype.h"
#include "kernels/cpu/gemm.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirst = "lora_A", kSecond = "lora_B";

std::vector<float> floats_of(const TensorEntry& tensor, int64_t first, int64_t elements) {
  const int64_t size = size_of(*tensor.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(elements * size));
  tensor.read(first * size, bytes);
  std::vector<float> out(static_cast<size_t>(elements));
  visit_dtype(*tensor.dtype, [&](auto zero) {
    const auto* from = reinterpret_cast<const decltype(zero)*>(bytes.data());
    std::transform(from, from + elements, out.begin(),
                   [](auto x) { return static_cast<float>(x); });
  });
  return out;
}
std::vector<float> all_of(const TensorEntry& tensor) {
  return floats_of(tensor, 0, tensor.shape.elements());
}

std::vector<std::byte> as_dtype(const std::vector<float>& values, Dtype dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size_of(dtype)));
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::ranges::transform(values, reinterpret_cast<T*>(bytes.data()),
                           [](float x) { return static_cast<T>(x); });
  });
  return bytes;
}

// Its tensors for one weight.
struct LoraPair {
  const TensorEntry* a = nullptr;  // [r, in]
  const TensorEntry* b = nullptr;  // [out, r]
};

class Merging {
 public:
  Merging(const Model& model, const fs::path& adapter)
      : weights_(model.source_dir()),
        adapter_(adapter / kAdapterWeightsFile),
        config_(PeftConfig::parse(read_file(adapter / kAdapterConfigFile),
                                  (adapter / kAdapterConfigFile).string())) {
    for (const std::string& name : adapter_.names()) {
      if (!weight_of_lora_tensor(name, kSecond).empty()) continue;
      const std::string weight = weight_of_lora_tensor(name, kFirst);
      if (weight.empty()) {
        throw bad_input("{}: tensor {} is no part of a LoRA adapter", adapter_.path().string(),
                        name);
      }
      const TensorEntry* base = nullptr;
      for (const std::string& spelling : model.spellings(weight))
        if (base == nullptr) base = weights_.find(spelling);
      if (base == nullptr) throw other_model(fmt::format("the model has no tensor {}", weight));
      pairs_[base->name] = checked(weight, *base);
    }
  }

  const CheckpointReader& weights() const { return weights_; }

  std::vector<TensorToWrite> tensors(TransferProgress& progress) const {
    std::vector<TensorToWrite> out;
    for (const std::string& name : weights_.names()) {
      const TensorEntry& tensor = *weights_.find(name);
      out.push_back({name, {*tensor.dtype, tensor.shape}, [&](const ByteSink& sink) {
                       write(tensor, [&](std::span<const std::byte> bytes) {
                         progress.add(bytes.size());
                         sink(bytes);
                       });
                     }});
    }
    return out;
  }

 private:
  Error other_model(const std::string& why) const {
    return bad_input("{}: {}", adapter_.path().string(), why)
        .hint("the adapter is of another base model");
  }

  // Both tensors for a weight, which the model's file calls `base`.
  LoraPair checked(const std::string& weight, const TensorEntry& base) const {
    const std::string first = lora_tensor(weight, kFirst), second = lora_tensor(weight, kSecond);
    const LoraPair pair{adapter_.find(first), adapter_.find(second)};
    if (pair.b == nullptr)
      throw bad_input("{} has {} and no {}", adapter_.path().string(), first, second);
    const Shape& w = base.shape;
    if (w.rank() != 2) throw other_model(fmt::format("{} is {}", base.name, w.text()));
    const Shape a{config_.rank, w[config_.in_out ? 0 : 1]},
        b{w[config_.in_out ? 1 : 0], config_.rank};
    if (pair.a->shape == a && pair.b->shape == b) return pair;
    throw other_model(fmt::format("{} {} and {} do not fit {} {}", first, pair.a->shape.text(),
                                  pair.b->shape.text(), base.name, w.text()));
  }

  void write(const TensorEntry& tensor, const ByteSink& sink) const {
    constexpr int64_t kAtOnce = int64_t{1} << 24;  // elements
    const auto found = pairs_.find(tensor.name);
    if (found == pairs_.end()) return copy(tensor, sink);
    const std::vector<float> a = all_of(*found->second.a), b = all_of(*found->second.b);
    const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
    const int64_t step = std::max<int64_t>(1, kAtOnce / columns);
    for (int64_t row = 0; row < rows; row += step) {
      const int64_t n = std::min(step, rows - row);
      std::vector<float> sum = floats_of(tensor, row * columns, n * columns);
      add(a, b, row, n, columns, sum);
      sink(as_dtype(sum, *tensor.dtype));
    }
  }

  // Rows [row, row + n) of B A, or of (B A)^T where the weight is stored [in, out].
  void add(const std::vector<float>& a, const std::vector<float>& b, int64_t row, int64_t n,
           int64_t columns, std::vector<float>& sum) const {
    const int64_t r = config_.rank;
    const auto inputs = static_cast<int64_t>(a.size()) / r;
    ops::Gemm g{.m = n,
                .n = columns,
                .k = r,
                .c = sum.data(),
                .alpha = static_cast<float>(config_.alpha / static_cast<double>(r)),
                .accumulate = true};
    if (config_.in_out) {
      g.a = a.data() + row;
      g.lda = inputs;
      g.b = b.data();
      g.transpose_a = g.transpose_b = true;
    } else {
      g.a = b.data() + row * r;
      g.b = a.data();
    }
    ops::gemm(g);
  }

  static void copy(const TensorEntry& tensor, const ByteSink& sink) {
    std::vector<std::byte> block(static_cast<size_t>(kReadBlockBytes));
    for (int64_t at = 0; at < tensor.bytes; at += kReadBlockBytes) {
      const auto next =
          std::span(block).first(static_cast<size_t>(std::min(kReadBlockBytes, tensor.bytes - at)));
      tensor.read(at, next);
      sink(next);
    }
  }

  CheckpointReader weights_, adapter_;
  PeftConfig config_;
  std::map<std::string, LoraPair> pairs_;  // by the model's tensor
};

}  // namespace

void save_merged(const Model& base, const fs::path& adapter, const fs::path& directory,
                 const std::function<void(const std::string&)>& doing) {
  const Merging merging(base, adapter);
  int64_t bytes = 0;
  for (const std::string& tensor : merging.weights().names())
    bytes += merging.weights().find(tensor)->bytes;
  const OutputDirectory out(directory);
  out.require_space(bytes);
  TransferProgress progress("merging", bytes, doing);
  save_tensors(merging.tensors(progress),
               {.directory = directory,
                .config_json = read_file(base.source_dir() / kConfigFile),
                .tokenizer_from = base.source_dir()});
}

}  // namespace snug
