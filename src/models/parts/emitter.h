// Emits the parts that models are made of, each with its parameters.
//
//   Emitter e(module, "micro_first");
//   auto scope = e.builder().layer(0, "layers.0");
//   ValueId gate_up = e.linear("mlp.gate_up", x, {.parts = {{"gate_proj", F}, {"up_proj", F}}});
//
// Shared values (parameters, inputs) are found by name or added: a module's programs share them.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "models/parts/inputs.h"
#include "models/parts/model_parts.h"
#include "ops/norm/residual.h"
#include "ops/random.h"

namespace snug {

// A linear layer whose parameter packs one or more checkpoint tensors, one below the other.
struct LinearLayer {
  struct Part {
    std::string name;  // without ".weight" and ".bias"
    int64_t out = 0;
  };
  std::vector<Part> parts;
  bool bias = false;
  double init_std = 0.02;
  int64_t heads = 0;        // > 0: the outputs come in this many heads
  int64_t value_heads = 0;  // the last so many of them are attention's values
  bool in_out = false;      // the weight is stored [in, out]; one part only
  int64_t by_head = 0;      // > 0: the checkpoint has q, k and v of so many heads one by one
};

class Emitter {
 public:
  Emitter(Module& module, std::string_view program);

  Builder& builder() { return builder_; }

  ValueId input(std::string_view name, Type type);
  ValueId input(const Input* input, const Input::Sizes& sizes);  // none for nullptr
  // The device scalars that dropout draws from.
  ops::Random random();

  // The f32 parameter "<prefix>.<name>"; `checkpoint` is what the whole of it is called in a file.
  ValueId param(std::string_view name, Shape shape, Role role, Init init, std::string checkpoint);
  ValueId param(std::string_view name, Shape shape, Param param);

  // What a program keeps for its next run, zeros at first: keys and values, for example.
  ValueId cache(std::string_view name, Shape shape);

  // With a residual the result is their sum.
  ValueId linear(std::string_view name, ValueId x, const LinearLayer& layer, ValueId residual = {});
  ValueId norm(std::string_view name, ValueId x, const parts::Norm& norm,
               const std::string& tensor);
  // h = x + delta, y = norm(h); without a delta h is x itself.
  ops::ResidualNorm residual_norm(std::string_view name, ValueId x, ValueId delta,
                                  const parts::Norm& norm, const std::string& tensor);
  // Of the queries and keys in packed qkv.
  ValueId qk_norm(std::string_view name, ValueId qkv, const parts::Attention& a,
                  const parts::Norm& norm, const std::string& q, const std::string& k);
  ValueId activation(std::string_view name, ValueId x, parts::Activation kind);
  ValueId dropout(std::string_view name, ValueId x, double p);  // x itself where p is 0

 private:
  ValueId shared(std::string name, Type type, Category category, Scope scope, Param param);
  struct NormParams {
    ValueId weight, bias;
  };
  NormParams norm_params(std::string_view name, int64_t width, const parts::Norm& norm,
                         const std::string& tensor);
  ValueId norm_weight(std::string_view name, int64_t width, const parts::Norm& norm,
                      const std::string& tensor);

  Builder builder_;
  std::unordered_map<std::string, ValueId> shared_;  // by name
};

}  // namespace snug
