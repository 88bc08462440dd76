#include "techniques/adapters/adapters.h"

#include "techniques/adapters/settings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "formats/peft_names.h"
#include "ir/builder.h"
#include "ops/activation/dropout.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_parts.h"
#include "ops/linear/weight_layout.h"

namespace snug {
namespace {

// By its last word, "q_proj", or several, "self_attn.q_proj".
bool is_called(std::string_view tensor, std::string_view target) {
  const std::string_view name = without_weight(tensor);
  return name.ends_with(target) &&
         (name.size() == target.size() || name[name.size() - target.size() - 1] == '.');
}

// The pair of one weight.
struct Pair {
  ValueId a, b;
  std::vector<int64_t> parts;  // of the weight's outputs; negative: those without an adapter
};

class Adapting {
 public:
  Adapting(Module& module, const Adapters& adapters) : module_(module), adapters_(adapters) {}

  void run() {
    freeze();
    for (size_t p = 0; p < module_.programs.size(); ++p) add_to(module_.programs[p].name);
    require_all_found();
  }

 private:
  void freeze() {
    for (Value& value : module_.values) {
      if (value.category != Category::params || !value.param) continue;
      Param frozen = *value.param;
      frozen.trainable = false;
      value.param = std::make_shared<const Param>(std::move(frozen));
    }
  }

  void add_to(const std::string& program) {
    Builder b(module_, program);
    const bool training = is_training(b.program().role);
    std::vector<Op> ops = std::exchange(b.program().ops, {});
    for (Op& op : ops) {
      if (op.def == &ops::linear_def && op.layer != kNoLayer) add_pair(b, op, training);
      b.program().ops.push_back(std::move(op));
    }
  }

  void add_pair(Builder& b, Op& op, bool training) {
    static const auto x_port = static_cast<size_t>(ops::linear_def.input_port("x"));
    static const auto weight_port = static_cast<size_t>(ops::linear_def.input_port("weight"));
    static const auto residual_port = static_cast<size_t>(ops::linear_def.input_port("residual"));
    const Pair& pair = pair_of(op, op.inputs[weight_port]);
    if (!pair.a.valid()) return;
    op.inputs.resize(std::max(op.inputs.size(), residual_port + 1));
    b.set_layer(op.layer);
    ValueId x = op.inputs[x_port];
    if (training && adapters_.dropout > 0)
      x = ops::dropout(b, op.name + ".lora_dropout", x, adapters_.dropout, random());
    const ValueId low = ops::linear(b, op.name + ".lora_a", {.x = x, .weight = pair.a});
    op.inputs[residual_port] = ops::linear_parts(b, op.name + ".lora_b",
                                                 {.x = low,
                                                  .weight = pair.b,
                                                  .residual = op.inputs[residual_port],
                                                  .parts = pair.parts,
                                                  .scale = adapters_.scale()});
  }

  // None where the layer is not chosen.
  const Pair& pair_of(const Op& op, ValueId weight) {
    const auto [at, added] = pairs_.try_emplace(weight.index);
    if (added) at->second = make_pair_of(op, weight);
    return at->second;
  }

  Pair make_pair_of(const Op& op, ValueId weight) {
    const Value value = module_[weight];
    const ops::WeightLayout layout = ops::WeightLayout::of(value.type.shape, op.attrs);
    Pair pair;
    Param a{.role = Role::matrix,
            .init = {Init::Kind::normal, std::sqrt(1 / (3.0 * static_cast<double>(layout.in)))},
            .adapter = true};
    Param b{.role = Role::matrix, .adapter = true};
    int64_t inputs = 0, outputs = 0;
    const std::span parts = value.param->checkpoint;
    for (size_t i = 0, end = 0; i < parts.size(); i = end) {
      const std::string& tensor = parts[i].name;
      int64_t out = 0;  // of all its pieces, which come one after another
      for (end = i; end < parts.size() && parts[end].name == tensor; ++end)
        out += parts[end].shape.elements() / layout.in;
      words_.insert(std::string(layer_word(tensor)));
      if (!is_target(op, tensor)) {
        pair.parts.push_back(-out);
        continue;
      }
      pair.parts.push_back(out);
      const Shape a_shape{adapters_.rank, layout.in};
      a.checkpoint.push_back({lora_tensor(tensor, "lora_A"), a_shape, inputs * a_shape.elements()});
      for (const CheckpointPart& piece : parts.subspan(i, end - i)) {
        const int64_t row = outputs + (piece.offset - parts[i].offset) / layout.in;
        b.checkpoint.push_back({lora_tensor(tensor, "lora_B"),
                                {piece.shape.elements() / layout.in, adapters_.rank},
                                row * adapters_.rank});
      }
      ++inputs;
      outputs += out;
    }
    if (inputs == 0) return {};
    const std::string name(without_weight(value.name));
    const auto add = [&](const char* which, Shape shape, Param param) {
      return add_shared(module_, name + which, {Dtype::f32, shape}, Category::params,
                        Scope::persistent, std::move(param), value.layer);
    };
    pair.a = add(".lora_a.weight", {inputs * adapters_.rank, layout.in}, std::move(a));
    pair.b = add(".lora_b.weight", {outputs, adapters_.rank}, std::move(b));
    return pair;
  }

  bool is_target(const Op& op, const std::string& tensor) {
    bool found = false;
    for (const std::string& target : adapters_.targets) {
      const bool this_one =
          target == "all" ||
          (target == "qkvo" && module_.name_in_layer(op.name, op.layer).starts_with("attn.")) ||
          is_called(tensor, target);
      if (this_one) found_.insert(target);
      found = found || this_one;
    }
    return found;
  }

  // A name that no layer has would train less than was asked for, without a word.
  void require_all_found() const {
    for (const std::string& target : adapters_.targets) {
      if (found_.contains(target)) continue;
      const std::vector<std::string> words(words_.begin(), words_.end());
      throw usage_error("--lora targets={}: no linear layer of '{}' is called that{}", target,
                        module_.name, did_you_mean(target, words))
          .hint(fmt::format("it has {}; or all, or qkvo", join(words, ", ")));
    }
  }

  ops::Random random() {
    const auto scalar = [&](const char* name) {
      const ValueId found = module_.find_shared(name);
      return found.valid()
                 ? found
                 : add_shared(module_, name, {Dtype::i64, {}}, Category::inputs, Scope::step);
    };
    return {.seed = scalar("seed"), .step = scalar("step"), .sample = scalar("sample")};
  }

  Module& module_;
  const Adapters& adapters_;
  std::map<int32_t, Pair> pairs_;  // by weight
  std::set<std::string> words_;    // what linear layers are called in a checkpoint
  std::set<std::string> found_;    // of the targets
};

}  // namespace

void adapters(Module& module, const Adapters& adapters) {
  if (adapters.on()) Adapting(module, adapters).run();
}

}  // namespace snug
